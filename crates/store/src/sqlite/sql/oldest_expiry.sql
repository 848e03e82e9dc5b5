select min(expires_at) from idempotency_records where state = 'finished'
