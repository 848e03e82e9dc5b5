-- A charge with all that is under way on it. The slot is taken while a capture or void is not decided.
select
    charges.operation, order_id, charges.amount, currency, status, amount_captured, amount_refunded, charges.created_at, metadata,
    suspected_duplicate_of, next_action, amount_refunding, tenants.name,
    (
        select kind from operations
        where charge = ?1 and (kind = 'capture' or kind = 'void')
            and (standing = 'open' or standing = 'unknown' or standing = 'pending')
    ),
    payment.account, payment.reference, charges.tenant
from charges
join tenants on tenants.id = charges.tenant
left join operations as payment on payment.charge = charges.id and payment.kind = 'payment' and payment.number = 1
where charges.id = ?1
