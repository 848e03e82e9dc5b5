select operation, id from charges where id > ?1
union
select operation, id from operations where id > ?1
