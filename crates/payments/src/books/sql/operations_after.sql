select operation, id from charges where id > ?1
