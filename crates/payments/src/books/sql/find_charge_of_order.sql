select
    operation, order_id, amount, currency, status, amount_captured, amount_refunded, created_at, metadata, suspected_duplicate_of,
    next_action
from charges
where id = ?4 and tenant = ?1 and order_id = ?2 and (?3 is null or status = ?3)
