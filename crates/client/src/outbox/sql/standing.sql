select state, reason, status, answer_headers, answer_body, lease, due_at_us, received, created_at_us, digest
from unavez_outbox_operations
where tenant = ?1 and key = ?2;
