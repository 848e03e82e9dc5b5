-- What is said about an operation that was executed by ?2. Of several executions one that moved money is the truth.
select
    e.id, e.operation, e.kind, e.tenant, e.payment, p.operation, e.order_id, e.payment_method, e.captures_at_once,
    e.amount, e.currency, e.outcome, e.decline_code, e.created_at, e.decided_at, e.captured, e.refunded, e.voided
from executions e left join executions p on p.id = e.payment
where e.operation = ?1 and e.created_at <= ?2
order by e.outcome = 'approved' desc, e.id limit 1
