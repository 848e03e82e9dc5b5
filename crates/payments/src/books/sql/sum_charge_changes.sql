-- Changes of charges that were summed before; later ones are read as they are now.
select
    tenant, currency, sum(captures), sum(captured / 1000000), sum(captured % 1000000), sum(refunded / 1000000),
    sum(refunded % 1000000)
from charge_changes
where id > ?1 and id <= ?2 and charge <= ?3
group by tenant, currency
