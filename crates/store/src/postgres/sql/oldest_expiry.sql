-- Not of the hot set.
with clock as materialized (
    select coalesce($1, (extract(epoch from clock_timestamp()) * 1000000)::bigint) as now
)
select clock.now, (select min(r.expires_at) from idempotency_records r where r.state = 'finished') as expires_at from clock
