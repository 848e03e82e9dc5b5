update unavez_outbox_operations set due_at_us = ?3
where id = ?1 and lease = ?2 and state = 'waiting';
