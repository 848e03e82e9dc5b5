select exists (select 1 from charges where tenant = (select id from tenants where name = ?1))
