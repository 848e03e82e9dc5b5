insert into seal_keys (id, check_value) values (?1, ?2)
on conflict (id) do update set retired_at = null
