select
    operation, order_id, amount, currency, status, amount_captured, amount_refunded, created_at, metadata, suspected_duplicate_of,
    next_action, fingerprint, request_id
from charges
where id = ?2 and operation = ?1
