-- A row that somebody's open transaction holds is waited for as in finish.sql.
with patience as materialized (
    select set_config('lock_timeout', '300ms', true)
)
delete from idempotency_records r
using patience, unnest($1::uuid[], $2::bigint[], $3::uuid[]) as c (id, version, attempt_id)
where r.id = c.id and r.version = c.version and r.attempt_id = c.attempt_id
returning r.id
