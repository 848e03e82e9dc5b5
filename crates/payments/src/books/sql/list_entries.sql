select charges.operation, entry.number, entry.kind, entry.debit, entry.credit, entry.amount, entry.currency, entry.created_at
from ledger_entries as entry join charges on charges.id = entry.charge
where entry.tenant = ?1 and entry.id < ?2
order by entry.id desc
limit ?3
