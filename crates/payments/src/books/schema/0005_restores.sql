-- Every time this database was put back from a copy. What was committed after the copy was taken is forgotten, keys
-- included: until ask_first_until the acquirer is asked before the first send of every new claim. Never deleted.
create table restores (
    id integer primary key,
    restored_at integer not null,
    -- The largest time in the copy: what is newer was forgotten.
    copy_of integer not null,
    -- Longer than any caller may go on repeating a key that was forgotten.
    ask_first_until integer not null check (ask_first_until >= restored_at)
) strict;
