-- Rows that belong to rows which are not there.
select
    (select count(*) from ledger_entries where charge not in (select id from charges))
    + (select count(*) from ledger_entries where tenant not in (select id from tenants))
    + (select count(*) from charges where tenant not in (select id from tenants))
    + (select count(*) from charges where (tenant, id / 256) not in (select tenant, block from charge_blocks))
    + (select count(*) from ledger_entries where (tenant, id / 256) not in (select tenant, block from ledger_entry_blocks))
