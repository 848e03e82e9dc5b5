select id from operations where id = ?2 and operation = ?1
