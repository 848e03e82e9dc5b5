select id from operations where charge = ?1 order by id
