select tenant, order_id, id from charges where id > ?1
