-- Sent behind claim.sql without waiting for it: the records that stood in the way of its claims. Those it created hold
-- the claims' own attempt ids. A statement of its own, because in claim.sql the snapshot is older than the winner's commit.
with clock as materialized (
    select coalesce($1, (extract(epoch from clock_timestamp()) * 1000000)::bigint) as now
)
select
    r.id, r.tenant, r.key, r.fingerprint, r.version, r.attempt_id, r.attempts, r.may_be_sent, r.sighted, r.created_at,
    r.attempt_started_at, r.latest_send_at, r.state, r.deadline, r.asked, r.next_ask_at, r.finished_at, r.expires_at,
    r.abandoned_at, r.conclusion, r.status, r.resource, r.not_kept, r.sealed_by, r.headers, r.body,
    clock.now
from clock, unnest($2::uuid[], $3::uuid[]) as c (id, attempt_id)
join idempotency_records r on r.id = c.id and r.attempt_id <> c.attempt_id
