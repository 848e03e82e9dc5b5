-- Which sealing keys this database has met, so that a key that is lost or changed is found at the start and not by the
-- first repeat.
create table seal_keys (
    -- As the key file spells it.
    id text primary key check (length(id) between 1 and 32),
    -- HMAC of a constant under the key. Tells whether an id still means the same key, and nothing else.
    check_value blob not null check (length(check_value) = 32),
    -- When the key was gone from the key file, and no record was left that needs it; null: in use.
    retired_at integer
) strict, without rowid;
