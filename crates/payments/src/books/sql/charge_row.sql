select id from charges where operation = ?1
