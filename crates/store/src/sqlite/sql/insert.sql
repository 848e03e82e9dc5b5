insert into idempotency_records (
    id, tenant, key, fingerprint, version, attempt_id, attempts, may_be_sent, sighted, created_at, attempt_started_at,
    latest_send_at, state, deadline, asked, next_ask_at, finished_at, expires_at, abandoned_at, conclusion, status,
    resource, not_kept, sealed_by, headers, body, position
)
values (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25,
    ?26, ?27
)
