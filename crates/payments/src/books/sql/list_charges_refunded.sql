-- Walks back through a tenant's charges: for people, never for a request.
select
    charges.operation, charges.order_id, charges.amount, charges.currency, charges.status, charges.amount_captured,
    charges.amount_refunded, charges.created_at, charges.metadata, charges.suspected_duplicate_of, charges.next_action
from charge_blocks as listed
cross join charges on charges.id between listed.block * 256 and listed.block * 256 + 255
where listed.tenant = ?1 and listed.block <= ?2 / 256 and charges.tenant = ?1 and charges.id < ?2
    and charges.amount_refunded > 0
order by listed.block desc, charges.id desc
limit ?3
