-- Declined, voided and released charges took nothing, so the order is still to be paid.
select operation from charges
where id = ?4 and tenant = ?1 and order_id = ?2 and created_at > ?3 and status not in ('declined', 'voided')
    and not (
        status = 'created'
        and exists (select 1 from operations where operations.charge = charges.id and operations.standing = 'released')
    )
