update unavez_outbox_operations set state = 'waiting', due_at_us = ?3, settled_at_us = null
where tenant = ?1 and key = ?2 and state = 'unknown';
