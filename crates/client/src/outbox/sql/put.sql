insert into unavez_outbox_operations
    (tenant, key, method, url, host, headers, body, created_at_us, digest, state, received, lease, due_at_us)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 'waiting', ?10, 0, ?11)
on conflict (tenant, key) do nothing;
