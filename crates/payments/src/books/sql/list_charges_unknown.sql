-- The first condition is that of the partial index.
select
    charges.operation, charges.order_id, charges.amount, charges.currency, charges.status, charges.amount_captured,
    charges.amount_refunded, charges.created_at, charges.metadata, charges.suspected_duplicate_of, charges.next_action
from operations join charges on charges.id = operations.charge
where (operations.standing = 'open' or operations.standing = 'unknown' or operations.standing = 'pending')
    and operations.standing = 'unknown' and operations.kind = 'payment' and charges.tenant = ?1 and charges.id < ?2
order by charges.id desc
limit ?3
