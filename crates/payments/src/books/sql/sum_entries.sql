-- Sums of amounts in halves: 999999999999 times ten million rows would leave 64 bits.
select tenant, currency, kind, count(*), sum(amount / 1000000), sum(amount % 1000000)
from ledger_entries
where id > ?1 and id <= ?2
group by tenant, currency, kind
