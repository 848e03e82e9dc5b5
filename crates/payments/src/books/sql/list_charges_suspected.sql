-- Walks back through a tenant's charges: for people, never for a request.
select
    operation, order_id, amount, currency, status, amount_captured, amount_refunded, created_at, metadata, suspected_duplicate_of,
    next_action
from charges
where tenant = ?1 and id < ?2 and suspected_duplicate_of is not null
order by id desc
limit ?3
