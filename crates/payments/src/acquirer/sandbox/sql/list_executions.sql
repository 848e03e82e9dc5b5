-- From the time ?1 to the time ?2, after the row ?3, oldest first. Reads past what lies before ?1: lists are for
-- reconciliation, which is not worth an index on every payment.
select
    e.id, e.operation, e.kind, e.tenant, e.payment, p.operation, e.order_id, e.payment_method, e.captures_at_once,
    e.amount, e.currency, e.outcome, e.decline_code, e.created_at, e.decided_at, e.captured, e.refunded, e.voided
from executions e left join executions p on p.id = e.payment
where e.id > ?3 and e.created_at between ?1 and ?2
order by e.id limit ?4
