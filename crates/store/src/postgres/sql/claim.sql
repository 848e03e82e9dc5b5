-- Creates the records of keys that nobody holds, and returns those it created. Sums of times stop at the largest number.
with clock as materialized (
    select coalesce($1, (extract(epoch from clock_timestamp()) * 1000000)::bigint) as now
)
insert into idempotency_records (
    id, tenant, key, fingerprint, attempt_id, may_be_sent, position, version, attempts, sighted, created_at,
    attempt_started_at, latest_send_at, state, deadline
)
select
    c.id, c.tenant, c.key, c.fingerprint, c.attempt_id, c.may_be_sent, c.position, 1, 1, false, clock.now,
    clock.now, clock.now + least(c.attempt_deadline, 9223372036854775807 - clock.now), 'in_progress',
    clock.now + least(c.operation_timeout, 9223372036854775807 - clock.now)
from
    clock,
    unnest($2::uuid[], $3::text[], $4::text[], $5::bytea[], $6::uuid[], $7::bool[], $8::bigint[], $9::bigint[], $10::bigint[])
    as c (id, tenant, key, fingerprint, attempt_id, may_be_sent, position, attempt_deadline, operation_timeout)
on conflict (id) do nothing
returning id, attempt_id, created_at
