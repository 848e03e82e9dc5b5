-- Committed and synced before the first byte is sent, and therefore says that an attempt may have been received.
update unavez_outbox_operations set lease = lease + 1, due_at_us = ?3, received = 1
where id = ?1 and lease = ?2 and state = 'waiting';
