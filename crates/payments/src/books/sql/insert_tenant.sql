insert into tenants (name) values (?1) on conflict (name) do nothing
