update charges set suspected_duplicate_of = ?2 where id = ?1
