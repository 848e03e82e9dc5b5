-- Charges since a time whose amounts are not what the ledger says, or not what their operations outside have done. No index
-- is kept for that.
with booked as (
    select
        charge,
        sum(amount) filter (where kind = 'capture') as captured,
        sum(amount) filter (where kind = 'refund') as refunded
    from ledger_entries
    group by charge
), done as (
    select
        charge,
        sum(amount) filter (where kind = 'capture' or captures_at_once = 1) as captured,
        sum(amount) filter (where kind = 'refund') as refunded,
        max(kind = 'payment') as went_outside
    from operations
    where standing = 'done'
    group by charge
)
select
    charges.operation, charges.amount_captured, charges.amount_refunded, coalesce(booked.captured, 0),
    coalesce(booked.refunded, 0), iif(coalesce(done.went_outside, 0), coalesce(done.captured, 0), charges.amount_captured),
    iif(coalesce(done.went_outside, 0), coalesce(done.refunded, 0), charges.amount_refunded), charges.currency
from charges
left join booked on booked.charge = charges.id
left join done on done.charge = charges.id
where charges.created_at >= ?1
    and (
        charges.amount_captured <> coalesce(booked.captured, 0)
        or charges.amount_refunded <> coalesce(booked.refunded, 0)
        or (
            coalesce(done.went_outside, 0)
            and (
                charges.amount_captured <> coalesce(done.captured, 0)
                or charges.amount_refunded <> coalesce(done.refunded, 0)
            )
        )
    )
order by charges.id
