-- Charges whose payments are under way, or came to nothing. Led by those few (`cross join` keeps the order): no index has
-- charges that are created.
select
    charges.operation, charges.order_id, charges.amount, charges.currency, charges.status, charges.amount_captured,
    charges.amount_refunded, charges.created_at, charges.metadata, charges.suspected_duplicate_of, charges.next_action
from (
    select charge from operations where standing = 'open' or standing = 'unknown' or standing = 'pending'
    union
    select charge from operations where standing = 'released'
) as begun
cross join charges on charges.id = begun.charge
where charges.tenant = ?1 and charges.id < ?2 and charges.status = 'created'
order by charges.id desc
limit ?3
