-- A cancelled key is promised nothing that could have been executed: its row stays for a lifetime, and bounds nothing.
select coalesce(max(expires_at - finished_at), 0)
from idempotency_records
where state = 'finished' and conclusion <> 'cancelled'
