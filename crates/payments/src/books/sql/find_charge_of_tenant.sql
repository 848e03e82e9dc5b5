select
    operation, order_id, amount, currency, status, amount_captured, amount_refunded, created_at, metadata, suspected_duplicate_of,
    next_action
from charges
where id = ?3 and operation = ?1 and tenant = ?2
