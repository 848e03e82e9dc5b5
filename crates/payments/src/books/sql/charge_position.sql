select id from charges where operation = ?1 and tenant = ?2
