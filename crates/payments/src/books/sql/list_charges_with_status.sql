-- `status <> 'captured'` lets the partial index serve all but the most frequent status; for that one the query
-- without it walks the tenant's index, where nearly every row counts.
select
    operation, order_id, amount, currency, status, amount_captured, amount_refunded, created_at, metadata, suspected_duplicate_of,
    next_action
from charges
where tenant = ?1 and id < ?2 and status = ?4 and status <> 'captured'
order by id desc
limit ?3
