-- Events of the bank that took effect. Their ids are all that tells a second delivery from a second event.
create table lesson_events (
    id text primary key check (id <> '')
) strict, without rowid;
