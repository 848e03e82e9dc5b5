select id, check_value, retired_at is not null from seal_keys
