update unavez_outbox_operations set due_at_us = ?3, received = ?4, reason = ?5
where id = ?1 and lease = ?2 and state = 'waiting';
