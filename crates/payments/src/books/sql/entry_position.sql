select id from ledger_entries where charge = ?1 and number = ?2
