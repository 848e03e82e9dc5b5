-- Everything a change can change. tenant, key, fingerprint and created_at last as long as the record.
update idempotency_records
set
    version = ?2,
    attempt_id = ?3,
    attempts = ?4,
    may_be_sent = ?5,
    sighted = ?6,
    attempt_started_at = ?7,
    latest_send_at = ?8,
    state = ?9,
    deadline = ?10,
    asked = ?11,
    next_ask_at = ?12,
    finished_at = ?13,
    expires_at = ?14,
    abandoned_at = ?15,
    conclusion = ?16,
    status = ?17,
    resource = ?18,
    not_kept = ?19,
    sealed_by = ?20,
    headers = ?21,
    body = ?22
where position = ?25 and id = ?1 and version = ?23 and attempt_id = ?24
