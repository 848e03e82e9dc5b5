select
    operation.id, operation.operation, tenants.name, charges.id, charges.operation, operation.kind, operation.number,
    operation.amount, charges.currency, operation.captures_at_once, operation.standing, operation.account,
    operation.reference, operation.decline_code, payment.reference,
    coalesce(operation.fingerprint, charges.fingerprint), operation.request_id, operation.created_at,
    charges.tenant
from operations as operation
join charges on charges.id = operation.charge
join tenants on tenants.id = charges.tenant
left join operations as payment
    on payment.charge = operation.charge and payment.kind = 'payment' and payment.number = 1
where operation.id = ?1
