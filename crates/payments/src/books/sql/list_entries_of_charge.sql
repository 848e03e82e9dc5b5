select charges.operation, entry.number, entry.kind, entry.debit, entry.credit, entry.amount, entry.currency, entry.created_at
from charges join ledger_entries as entry on entry.charge = charges.id
where charges.id = ?4 and charges.tenant = ?1 and entry.id < ?2
order by entry.id desc
limit ?3
