select count(*) from unavez_outbox_operations where tenant = ?1 and state = 'waiting';
