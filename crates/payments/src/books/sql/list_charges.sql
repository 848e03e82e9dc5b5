select operation, order_id, amount, currency, status, amount_captured, amount_refunded, created_at, metadata
from charges
where tenant = ?1 and id < ?2
order by id desc
limit ?3
