-- Finishes records by their fences, and returns what the answer's owner does not know of them. Fails to match where core's
-- table forbids it. A row that somebody's open transaction holds is waited for so long and no longer where $13 says it: the
-- neighbours wait with it. Null inside a caller's transaction, whose settings are the caller's.
with clock as materialized (
    select
        coalesce($1, (extract(epoch from clock_timestamp()) * 1000000)::bigint) as now,
        case when $13 is not null then set_config('lock_timeout', $13, true) end
)
update idempotency_records r
set
    version = r.version + 1,
    state = 'finished',
    deadline = null,
    asked = null,
    next_ask_at = null,
    abandoned_at = null,
    finished_at = clock.now,
    expires_at = clock.now + least(c.response_ttl, 9223372036854775807 - clock.now),
    conclusion = c.conclusion,
    status = c.status,
    resource = c.resource,
    not_kept = c.not_kept,
    sealed_by = c.sealed_by,
    headers = c.headers,
    body = c.body
from
    clock,
    unnest(
        $2::uuid[], $3::bigint[], $4::uuid[], $5::bigint[], $6::text[], $7::integer[], $8::text[], $9::text[], $10::text[],
        $11::text[], $12::bytea[]
    )
    as c (id, version, attempt_id, response_ttl, conclusion, status, resource, not_kept, sealed_by, headers, body)
where r.id = c.id and r.version = c.version and r.attempt_id = c.attempt_id and r.state <> 'finished'
returning
    r.id, r.tenant, r.key, r.fingerprint, r.version, r.attempt_id, r.attempts, r.may_be_sent, r.sighted, r.created_at,
    r.attempt_started_at, r.latest_send_at, r.finished_at
