-- One row for each id, with nulls where there is no record.
with clock as materialized (
    select coalesce($1, (extract(epoch from clock_timestamp()) * 1000000)::bigint) as now
)
select
    r.id, r.tenant, r.key, r.fingerprint, r.version, r.attempt_id, r.attempts, r.may_be_sent, r.sighted, r.created_at,
    r.attempt_started_at, r.latest_send_at, r.state, r.deadline, r.asked, r.next_ask_at, r.finished_at, r.expires_at,
    r.abandoned_at, r.conclusion, r.status, r.resource, r.not_kept, r.sealed_by, r.headers, r.body,
    clock.now,
    c.id
from clock, unnest($2::uuid[]) as c (id)
left join idempotency_records r on r.id = c.id
