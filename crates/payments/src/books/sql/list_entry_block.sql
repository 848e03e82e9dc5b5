insert or ignore into ledger_entry_blocks (tenant, block) values (?1, ?2)
