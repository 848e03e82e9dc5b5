-- Puts records in their new form in place of those with the fences named. A position is given where a life starts anew.
-- A row that somebody's open transaction holds is waited for as in finish.sql.
with patience as materialized (
    select set_config('lock_timeout', '300ms', true)
)
update idempotency_records r
set
    tenant = c.tenant,
    key = c.key,
    fingerprint = c.fingerprint,
    version = c.version,
    attempt_id = c.attempt_id,
    attempts = c.attempts,
    may_be_sent = c.may_be_sent,
    sighted = c.sighted,
    created_at = c.created_at,
    attempt_started_at = c.attempt_started_at,
    latest_send_at = c.latest_send_at,
    state = c.state,
    deadline = c.deadline,
    asked = c.asked,
    next_ask_at = c.next_ask_at,
    finished_at = c.finished_at,
    expires_at = c.expires_at,
    abandoned_at = c.abandoned_at,
    conclusion = c.conclusion,
    status = c.status,
    resource = c.resource,
    not_kept = c.not_kept,
    sealed_by = c.sealed_by,
    headers = c.headers,
    body = c.body,
    position = coalesce(c.position, r.position)
from
    patience,
    unnest(
        $1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::uuid[], $7::bigint[], $8::bool[], $9::bool[],
        $10::bigint[], $11::bigint[], $12::bigint[], $13::text[], $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[],
        $18::bigint[], $19::bigint[], $20::text[], $21::integer[], $22::text[], $23::text[], $24::text[], $25::text[],
        $26::bytea[], $27::bigint[], $28::bigint[], $29::uuid[]
    )
    as c (
        id, tenant, key, fingerprint, version, attempt_id, attempts, may_be_sent, sighted, created_at, attempt_started_at,
        latest_send_at, state, deadline, asked, next_ask_at, finished_at, expires_at, abandoned_at, conclusion, status,
        resource, not_kept, sealed_by, headers, body, position, old_version, old_attempt_id
    )
where r.id = c.id and r.version = c.old_version and r.attempt_id = c.old_attempt_id
returning r.id
