-- Not of the hot set. Positions of two processes can be equal: what has the last one's position comes whole.
with clock as materialized (
    select coalesce($1, (extract(epoch from clock_timestamp()) * 1000000)::bigint) as now
)
select
    r.id, r.tenant, r.key, r.fingerprint, r.version, r.attempt_id, r.attempts, r.may_be_sent, r.sighted, r.created_at,
    r.attempt_started_at, r.latest_send_at, r.state, r.deadline, r.asked, r.next_ask_at, r.finished_at, r.expires_at,
    r.abandoned_at, r.conclusion, r.status, r.resource, r.not_kept, r.sealed_by, r.headers, r.body,
    clock.now,
    r.position
from clock
left join (
    select * from idempotency_records p
    where p.position < $2 and ($3::text is null or p.tenant = $3) and ($4::text is null or p.state = $4)
    order by p.position desc
    fetch first ($5) rows with ties
) r on true
order by r.position desc
