select id from operations where operation = ?1 and kind <> 'payment'
