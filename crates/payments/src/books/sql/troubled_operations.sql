-- Operations that had no definite answer in a stretch of time, other than those of one order; how many of them are still
-- not decided, and when the first was hit. No index is kept for that.
with troubled as (
    select event.operation as id, min(event.at) as at
    from key_events as event
    where event.at between ?1 and ?2
        and (event.kind = 'answered' or event.kind = 'taken_over' or event.kind = 'held' or event.kind = 'contradicted')
    group by event.operation
)
select
    count(*), min(troubled.at),
    count(*) filter (where operation.standing = 'open' or operation.standing = 'unknown' or operation.standing = 'pending')
from troubled
join operations as operation on operation.id = troubled.id
join charges on charges.id = operation.charge
join tenants on tenants.id = charges.tenant
where tenants.name <> ?3 or charges.order_id <> ?4
