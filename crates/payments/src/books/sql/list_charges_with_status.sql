-- The two terms after the status let the partial index serve; the statuses that are not in it have statements of their own.
select
    operation, order_id, amount, currency, status, amount_captured, amount_refunded, created_at, metadata, suspected_duplicate_of,
    next_action
from charges
where tenant = ?1 and id < ?2 and status = ?4 and status <> 'captured' and status <> 'created'
order by id desc
limit ?3
