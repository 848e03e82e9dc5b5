select operation from operations where charge = ?1 order by id
