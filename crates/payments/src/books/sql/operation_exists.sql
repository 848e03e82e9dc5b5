select 1 from operations where operation = ?1
