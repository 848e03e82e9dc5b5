delete from idempotency_records where id = ?1 and version = ?2 and attempt_id = ?3
