select id, name from tenants order by id
