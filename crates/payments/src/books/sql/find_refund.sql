select operation.id
from operations as operation
join charges on charges.id = operation.charge
where charges.id = ?4 and charges.operation = ?1 and charges.tenant = ?2 and operation.kind = 'refund' and operation.number = ?3
