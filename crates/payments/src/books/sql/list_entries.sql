select charges.operation, entry.number, entry.kind, entry.debit, entry.credit, entry.amount, entry.currency, entry.created_at
from ledger_entry_blocks as listed
cross join ledger_entries as entry on entry.id between listed.block * 256 and listed.block * 256 + 255
cross join charges on charges.id = entry.charge
where listed.tenant = ?1 and listed.block <= ?2 / 256 and entry.tenant = ?1 and entry.id < ?2
order by listed.block desc, entry.id desc
limit ?3
