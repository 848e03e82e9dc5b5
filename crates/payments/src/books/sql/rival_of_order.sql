-- A charge of the order under another key: what it is, and whether it is decided. Declined, voided and wholly refunded ones
-- hold nothing, so the order is still to be paid; of a released one nothing was ever sent. One that is open may still take
-- the money, however old it is.
select charges.operation, charges.status = 'authorized' or charges.status = 'captured'
from charges
left join operations as payment on payment.charge = charges.id and payment.kind = 'payment' and payment.number = 1
where charges.id = ?4 and charges.tenant = ?1 and charges.order_id = ?2 and charges.operation <> ?5
    and charges.status not in ('declined', 'voided')
    and not (charges.status = 'captured' and charges.amount_refunded = charges.amount_captured)
    and not (charges.status = 'created' and payment.standing is 'released')
    and (charges.status in ('created', 'pending') or charges.created_at > ?3 or payment.settled_at > ?3)
