select entry.id
from ledger_entries as entry join charges on charges.id = entry.charge
where charges.operation = ?1 and charges.tenant = ?2 and entry.number = ?3
