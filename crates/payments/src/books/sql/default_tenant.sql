select name from default_tenant
