-- The charge's next entry.
insert into ledger_entries (tenant, charge, number, kind, debit, credit, amount, currency, created_at)
select charges.tenant, charges.id, coalesce((select max(number) from ledger_entries where charge = ?1), 0) + 1,
    ?2, ?3, ?4, ?5, charges.currency, ?6
from charges
where charges.id = ?1
