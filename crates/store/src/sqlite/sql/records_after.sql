select id, position from idempotency_records where position > ?1
