select coalesce(next_ask_at, deadline), id, position from idempotency_records
where (state in ('pending', 'unknown') or (state = 'in_progress' and may_be_sent = 1))
    and tenant = ?1 and coalesce(next_ask_at, deadline) <= ?2
order by coalesce(next_ask_at, deadline)
limit ?3
