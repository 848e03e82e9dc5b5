-- For a person with a number from a log line; no index is kept for that.
select charge from operations where request_id = ?1
union
select operation.charge
from key_events as event join operations as operation on operation.id = event.operation
where event.request_id = ?1
union
select id from charges where request_id = ?1
