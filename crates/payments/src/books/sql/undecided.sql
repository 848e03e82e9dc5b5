-- Undecided operations, oldest first. A running attempt counts once it is older than the operation timeout: its owner is
-- lost, or about to be.
select operation.id
from operations as operation
where (operation.standing = 'open' or operation.standing = 'unknown' or operation.standing = 'pending')
    and (operation.standing <> 'open' or operation.created_at < ?1)
order by operation.created_at
limit ?2
