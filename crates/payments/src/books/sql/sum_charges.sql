select
    tenant, currency, sum(amount_captured > 0), sum(amount_captured / 1000000), sum(amount_captured % 1000000),
    sum(amount_refunded / 1000000), sum(amount_refunded % 1000000)
from charges
where id > ?1 and id <= ?2
group by tenant, currency
