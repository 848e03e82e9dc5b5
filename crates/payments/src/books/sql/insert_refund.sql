insert into ledger_entries (tenant, charge, number, kind, debit, credit, amount, currency, created_at)
values (
    ?1, ?2, (select max(number) + 1 from ledger_entries where charge = ?2), 'refund', 'merchant', 'customer', ?3, ?4, ?5
)
