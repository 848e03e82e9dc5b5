select id from operations where charge = ?2 and kind = 'payment' and number = 1 and operation = ?1
