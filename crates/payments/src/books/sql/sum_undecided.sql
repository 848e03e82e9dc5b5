select charges.currency, count(*), min(operation.created_at), sum(operation.amount / 1000000), sum(operation.amount % 1000000)
from operations as operation join charges on charges.id = operation.charge
where (operation.standing = 'open' or operation.standing = 'unknown' or operation.standing = 'pending')
    and (operation.standing <> 'open' or operation.created_at < ?1)
group by charges.currency
