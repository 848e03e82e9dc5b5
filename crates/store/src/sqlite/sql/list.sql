select
    id, tenant, key, fingerprint, version, attempt_id, attempts, may_be_sent, sighted, created_at, attempt_started_at,
    latest_send_at, state, deadline, asked, next_ask_at, finished_at, expires_at, abandoned_at, conclusion, status,
    resource, not_kept, sealed_by, headers, body,
    position
from idempotency_records
where position < ?1 and (?2 is null or tenant = ?2) and (?3 is null or state = ?3)
order by position desc
limit ?4
