insert into ledger_entries (tenant, charge, number, kind, debit, credit, amount, currency, created_at)
values (?1, ?2, 1, 'capture', 'customer', 'merchant', ?3, ?4, ?5)
