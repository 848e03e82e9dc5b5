insert into unavez_store (one, realm)
values (1, coalesce($1, 'r-' || replace(gen_random_uuid()::text, '-', '')))
on conflict do nothing
