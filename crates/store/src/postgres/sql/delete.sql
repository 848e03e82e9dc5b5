delete from idempotency_records r
using unnest($1::uuid[], $2::bigint[], $3::uuid[]) as c (id, version, attempt_id)
where r.id = c.id and r.version = c.version and r.attempt_id = c.attempt_id
returning r.id
