-- Whose the tenant `default` is since there are API keys. Named once: under another name its charges would be new to their
-- owner, whose repeats would charge again, and known to a stranger.
create table default_tenant (
    one integer primary key check (one = 1),
    name text not null check (length(name) between 1 and 128)
) strict;
