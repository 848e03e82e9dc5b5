-- Declined and voided charges took nothing, so the order is still to be paid.
select operation from charges
where id = ?3 and tenant = ?1 and order_id = ?2 and status not in ('declined', 'voided')
