select count(*) filter (where state = 'waiting'),
       count(*) filter (where state = 'unknown'),
       min(created_at_us) filter (where state = 'waiting')
from unavez_outbox_operations
where tenant = ?1 and state in ('waiting', 'unknown');
