select coalesce(max(expires_at - finished_at), 0) from idempotency_records where state = 'finished'
