select
    id, tenant, key, fingerprint, version, attempt_id, attempts, may_be_sent, sighted, created_at, attempt_started_at,
    latest_send_at, state, deadline, asked, next_ask_at, finished_at, expires_at, abandoned_at, conclusion, status,
    resource, not_kept, sealed_by, headers, body
from idempotency_records
where position = ?1 and id = ?2
