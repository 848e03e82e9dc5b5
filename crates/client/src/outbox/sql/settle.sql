update unavez_outbox_operations
set state = ?3, received = ?4, reason = ?5, status = ?6, answer_headers = ?7, answer_body = ?8,
    settled_at_us = ?9, due_at_us = null
where id = ?1 and lease = ?2 and state = 'waiting';
