select coalesce(max(number), 0) + 1 from operations where charge = ?1 and kind = ?2
