select filed_to from unavez_indexes where name = ?1
