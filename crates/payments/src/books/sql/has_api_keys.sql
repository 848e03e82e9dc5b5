-- Whether callers need API keys: the owner of `default` is on record, or somebody else has charged. No key is stored here.
select exists (select 1 from default_tenant) or exists (select 1 from tenants where name <> 'default')
