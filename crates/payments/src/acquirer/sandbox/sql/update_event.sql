update events set due_at = ?2, failures = ?3, deliveries_left = ?4 where id = ?1
