-- The outbox's two tables. They can stand in a database of the caller's, so their names are long.
-- Times are whole microseconds since 1970-01-01 UTC on the outbox's clock, which never goes back.

create table if not exists unavez_outbox (
    one integer primary key check (one = 1),
    -- Of these tables. A program refuses a format it does not know.
    format integer not null check (format >= 1),
    -- The largest time ever used: a later process starts no earlier, wherever the wall clock went.
    latest_us integer not null
) strict;

create table if not exists unavez_outbox_operations (
    -- Never given out again, so that an id in a worker's hands means the same row for ever.
    id integer primary key autoincrement,
    -- Whose credentials it is sent with.
    tenant text not null check (length(tenant) <= 128),
    key text not null check (length(key) between 1 and 255),
    method text not null,
    url text not null,
    -- Of the URL, with its port: hosts take turns.
    host text not null,
    -- As on the wire, one line each.
    headers blob not null,
    body blob not null,
    created_at_us integer not null,
    -- SHA-256 over all of the above but the id: a row that was edited, or rotted, is not sent.
    digest blob not null check (length(digest) = 32),

    state text not null check (state in ('waiting', 'done', 'refused', 'unknown')),
    -- 1: an attempt may have been received. Set in the commit before the first byte is sent.
    received integer not null check (received in (0, 1)),
    -- How often it was taken. The number is the fence: who holds an older one writes nothing.
    lease integer not null check (lease >= 0),
    -- When it may be taken. Taking it moves this to the end of the lease.
    due_at_us integer,
    -- What the last call met, or why the operation is unknown.
    reason text,
    status integer check (status between 200 and 599),
    answer_headers blob,
    answer_body blob,
    settled_at_us integer,

    unique (tenant, key),
    check ((state = 'waiting') = (due_at_us is not null)),
    check ((state = 'waiting') = (settled_at_us is null)),
    check ((state in ('done', 'refused')) = (status is not null)),
    check ((status is null) = (answer_headers is null) and (status is null) = (answer_body is null)),
    check (state <> 'unknown' or reason is not null)
) strict;

-- Each host's first operation is found without reading another's.
create index if not exists unavez_outbox_due
    on unavez_outbox_operations (tenant, host, due_at_us) where state = 'waiting';

-- For the purge.
create index if not exists unavez_outbox_settled
    on unavez_outbox_operations (settled_at_us) where state in ('done', 'refused');

insert into unavez_outbox (one, format, latest_us) values (1, 1, 0) on conflict do nothing;
