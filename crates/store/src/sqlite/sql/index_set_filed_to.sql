update unavez_indexes set filed_to = ?2 where name = ?1
