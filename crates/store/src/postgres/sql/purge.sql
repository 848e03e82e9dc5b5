-- Not of the hot set. Processes share the work, and the delete itself re-checks what the index promised.
with clock as materialized (
    select coalesce($1, (extract(epoch from clock_timestamp()) * 1000000)::bigint) as now
),
expired as (
    select e.id, e.version from idempotency_records e, clock
    where e.state = 'finished' and e.expires_at <= clock.now
    order by e.expires_at
    limit $2
    for update of e skip locked
)
delete from idempotency_records r
using expired, clock
where r.id = expired.id and r.version = expired.version and r.state = 'finished' and r.expires_at <= clock.now
returning r.id
