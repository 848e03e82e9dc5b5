-- Declined and voided charges took nothing, so the order is still to be paid.
select operation from charges where tenant = ?1 and order_id = ?2 and status not in ('declined', 'voided') limit 1
