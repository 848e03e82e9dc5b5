select id from charges where id = ?3 and tenant = ?1 and order_id = ?2
