-- Charges since a time that took money and kept some of it, of one order and one amount under several keys, or suspected
-- as duplicates of earlier ones when they came. No index is kept for that.
select id
from (
    select
        charges.id as id, charges.suspected_duplicate_of,
        count(*) over (
            partition by charges.tenant, charges.order_id, charges.amount, charges.currency
        ) as keys
    from charges
    where charges.created_at >= ?1
        and (
            charges.status = 'authorized'
            or (charges.status = 'captured' and charges.amount_refunded < charges.amount_captured)
        )
)
where keys > 1 or suspected_duplicate_of is not null
order by id
