select at, kind, attempt, version, instance, request_id, caller, detail
from key_events
where operation = ?1
order by id
