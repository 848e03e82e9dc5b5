select id from charges where id = ?3 and operation = ?1 and tenant = ?2
