delete from idempotency_records where position = ?4 and id = ?1 and version = ?2 and attempt_id = ?3
