select exists (select 1 from charge_blocks where tenant = (select id from tenants where name = ?1))
