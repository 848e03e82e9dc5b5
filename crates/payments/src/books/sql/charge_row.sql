select id from charges where id = ?2 and operation = ?1
