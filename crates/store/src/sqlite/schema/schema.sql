-- The whole schema of the store: what its migrations add up to (tested). New databases are made by the migrations.

-- Which changes of the schema this database has seen.
create table if not exists unavez_migrations (
    -- Whose tables: `store`, or the name of a service on top of it.
    component text not null,
    -- From 1, without gaps.
    number integer not null check (number >= 1),
    name text not null,
    -- Of the migration's text: an applied migration is never edited.
    checksum text not null,
    applied_at integer not null,
    primary key (component, number)
) strict, without rowid;

-- The store's own row and the idempotency records. Times are whole microseconds since 1970-01-01 UTC on the store's
-- clock; ids are 16 raw bytes (`hex(id)` shows the digits of the operation id).

-- One row: what the one writing process must know about the database.
create table unavez_store (
    one integer primary key check (one = 1),
    -- Names the deployment; part of every operation id, so it never changes after the first operation.
    realm text not null check (length(realm) between 1 and 128),
    -- Raised by every process that opens the database for writing and compared in every commit: a writer that was
    -- paused or slipped past the lock file finds another number and stops.
    epoch integer not null check (epoch >= 0),
    -- Number of the latest commit: tells after a failed COMMIT whether it happened.
    batch integer not null check (batch >= 0),
    -- The largest time ever used: a later process starts no earlier, wherever the wall clock went.
    largest_time integer not null,
    -- The clocks when the wall clock was last known to be right: a later process of the same boot compares the wall
    -- clock's advance with the uptime's and so notices a step.
    confirmed_time integer not null,
    confirmed_wall integer not null,
    -- Null where the system does not tell.
    boot_id text,
    uptime_us integer check ((uptime_us is null) = (boot_id is null))
) strict;

-- One row per (realm, tenant, key): an operation from its claim until its answer's promise is over. (The checks say
-- `a = 'x' or a = 'y'`, because a list of three after `in` builds a temporary tree for every row written.)
create table idempotency_records (
    -- Order of creation: appends at the table's end, and pages of a list are cut by it. Given by the writer, above all
    -- earlier ones, and never to two records while one process owns the file.
    position integer primary key,
    -- First 16 bytes of the hash of (realm, tenant, key); after `op_` the same digits are the operation id.
    -- Found through idempotency_records_by_id.
    id blob not null check (length(id) = 16),
    -- Whose key. Compared on every read, whatever the hash says.
    tenant text not null check (length(tenant) between 1 and 128),
    -- The caller's name for the operation.
    key text not null check (length(key) between 1 and 255),
    -- Digest of the request that claimed the key; its first byte is the version of its form.
    fingerprint blob not null,
    -- Raised by every write. With attempt_id it is the fence: every update names both.
    version integer not null check (version >= 1),
    attempt_id blob not null check (length(attempt_id) = 16),
    -- Attempts started so far.
    attempts integer not null check (attempts >= 1),
    -- 1: an outside system may have received something; such an operation is asked about before it runs again.
    may_be_sent integer not null check (may_be_sent in (0, 1)),
    -- 1: the outside system was seen to know the operation; it is never sent again.
    sighted integer not null check (sighted in (0, 1)),
    created_at integer not null,
    attempt_started_at integer not null,
    -- The latest moment at which any attempt can have sent something: "not found" counts only well after it.
    latest_send_at integer not null,
    -- unknown: the attempt was cut off; pending: the outside system has not decided.
    state text not null check (
        state = 'finished' or state = 'in_progress' or state = 'unknown' or state = 'pending' or state = 'abandoned'
    ),
    -- in_progress: from then on the owner counts as lost.
    deadline integer check ((deadline is null) = (state <> 'in_progress')),
    -- pending, unknown: questions asked since the attempt ended, and when the next one is due.
    asked integer check ((asked is null) = (state not in ('pending', 'unknown'))),
    next_ask_at integer check ((next_ask_at is null) = (state not in ('pending', 'unknown'))),
    -- finished: since when, and how long the answer is promised. Purged after that, never before.
    finished_at integer check ((finished_at is null) = (state <> 'finished')),
    expires_at integer check ((expires_at is null) = (state <> 'finished')) check (expires_at >= finished_at),
    -- abandoned: since when. A tombstone until an operator settles it.
    abandoned_at integer check ((abandoned_at is null) = (state <> 'abandoned')),
    -- finished: what became of the operation.
    conclusion text check ((conclusion is null) = (state <> 'finished'))
        check (
            conclusion = 'approved' or conclusion = 'declined' or conclusion = 'refused' or conclusion = 'cancelled'
        ),
    -- finished: HTTP status of the first answer.
    status integer check ((status is null) = (state <> 'finished')),
    -- Id of what the operation made, if it named one.
    resource text,
    -- Why the body is not there, if it is not.
    not_kept text check (not_kept = 'too-large' or not_kept = 'streamed' or not_kept = 'redacted'),
    -- Name of the key that opens body; null: body is in clear.
    sealed_by text,
    -- The kept header fields, one `name: value` a line in their order; other bytes than printable ASCII as \xNN.
    headers text check (headers is null or state = 'finished'),
    -- The bytes of the answer, or of headers and body together where sealed. Last, because long ones leave the page.
    body blob,
    check ((state = 'finished') = (headers is not null or sealed_by is not null)),
    check ((body is not null) = (state = 'finished' and not_kept is null)),
    check (sealed_by is null or (headers is null and not_kept is null))
) strict;

-- For the purge. Promises of one length end in the order of their start, so this index grows at its end.
create index idempotency_records_by_expiry on idempotency_records (expires_at) where state = 'finished';

-- For recovery: whose outcome is to be asked about, and from when on. Holds open records only, so it stays small.
create index idempotency_records_by_due on idempotency_records (tenant, coalesce(next_ask_at, deadline))
    where state in ('pending', 'unknown') or (state = 'in_progress' and may_be_sent = 1);

-- How far each index over digests is filed: the entries of rows after that position are in memory while a process owns
-- the file, and are read from the rows themselves when it starts.
create table unavez_indexes (
    -- The table that holds the index's tree.
    name text primary key,
    filed_to integer not null check (filed_to >= 0)
) strict, without rowid;

-- The tree of records by id. Filed in bulk and in the order of ids, since a page for each record would be most of what a
-- commit writes. An entry whose record is gone, or has another id, counts for nothing.
create table idempotency_records_by_id (
    digest blob not null check (length(digest) = 16),
    position integer not null,
    primary key (digest, position)
) strict, without rowid;
