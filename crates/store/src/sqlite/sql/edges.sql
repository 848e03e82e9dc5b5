select
    (select min(position) from idempotency_records),
    (select max(position) from idempotency_records),
    (select min(digest) from idempotency_records_by_id),
    (select max(digest) from idempotency_records_by_id),
    (select min(expires_at) from idempotency_records where state = 'finished'),
    (select max(expires_at) from idempotency_records where state = 'finished')
