select
    (select min(position) from idempotency_records),
    (select max(position) from idempotency_records),
    (select min(id) from idempotency_records),
    (select max(id) from idempotency_records),
    (select min(expires_at) from idempotency_records where state = 'finished'),
    (select max(expires_at) from idempotency_records where state = 'finished')
