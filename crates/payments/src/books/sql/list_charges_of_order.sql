select
    operation, order_id, amount, currency, status, amount_captured, amount_refunded, created_at, metadata, suspected_duplicate_of,
    next_action
from charges
where tenant = ?1 and id < ?2 and (?4 is null or status = ?4) and order_id = ?5
order by id desc
limit ?3
