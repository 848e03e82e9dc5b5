-- Operations that have appeared since something was parked for them.
select distinct parked.operation
from webhook_events as parked join operations on operations.operation = parked.operation
where parked.state = 'parked' and operations.standing <> 'released'
limit ?1
