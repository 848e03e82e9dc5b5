select sealed_by, fingerprint from idempotency_records
where state <> 'finished' or expires_at > ?1
