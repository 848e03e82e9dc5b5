-- Operations of an account that took effect, claimed in a stretch of time, in the order of their claims; from the row
-- after ?4. No index is kept for that.
select operation.id, operation.operation
from operations as operation
where operation.id > ?4 and operation.account = ?1 and operation.standing = 'done'
    and operation.created_at between ?2 and ?3
order by operation.id
limit 1000
