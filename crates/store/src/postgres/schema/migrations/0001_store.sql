-- The store's own row and the idempotency records. Times are whole microseconds since 1970-01-01 UTC on the database's
-- clock; an id without its dashes has the digits of the operation id.

-- One row: what every process must know about the database.
create table unavez_store (
    one integer primary key check (one = 1),
    -- Names the deployment; part of every operation id, so it never changes after the first operation.
    realm text not null check (length(realm) between 1 and 128)
);

-- One row per (realm, tenant, key): an operation from its claim until its answer's promise is over.
--
-- Columns of fixed width come first, so that none is padded. `id` is the distribution column: the primary key holds it,
-- and so does every statement of a request.
create table idempotency_records (
    -- First 16 bytes of the hash of (realm, tenant, key); after `op_` the same digits are the operation id.
    id uuid primary key,
    -- With version the fence: every update names both.
    attempt_id uuid not null,
    -- Raised by every write.
    version bigint not null check (version >= 1),
    -- About when the record began, in microseconds, and different for any two records of one process. Pages of a list
    -- are cut by it; no age is measured by it.
    position bigint not null,
    created_at bigint not null,
    attempt_started_at bigint not null,
    -- The latest moment at which any attempt can have sent something: "not found" counts only well after it.
    latest_send_at bigint not null,
    -- in_progress: from then on the owner counts as lost.
    deadline bigint,
    -- pending, unknown: when the next question is due.
    next_ask_at bigint,
    -- finished: since when, and how long the answer is promised. Purged after that, never before.
    finished_at bigint,
    expires_at bigint,
    -- abandoned: since when. A tombstone until an operator settles it.
    abandoned_at bigint,
    -- Attempts started so far.
    attempts bigint not null check (attempts >= 1),
    -- pending, unknown: questions asked since the attempt ended.
    asked bigint,
    -- finished: HTTP status of the first answer.
    status integer,
    -- An outside system may have received something; such an operation is asked about before it runs again.
    may_be_sent boolean not null,
    -- The outside system was seen to know the operation; it is never sent again.
    sighted boolean not null,
    -- Whose key. Compared on every read, whatever the hash says.
    tenant text collate "C" not null check (length(tenant) between 1 and 128),
    -- The caller's name for the operation.
    key text collate "C" not null check (length(key) between 1 and 255),
    -- Digest of the request that claimed the key; its first byte is the version of its form.
    fingerprint bytea not null,
    -- unknown: the attempt was cut off; pending: the outside system has not decided.
    state text collate "C" not null,
    -- finished: what became of the operation.
    conclusion text collate "C",
    -- finished: id of what the operation made, if it named one.
    resource text,
    -- finished: why the body is not there, if it is not.
    not_kept text,
    -- finished: name of the key that opens body; null: body is in clear.
    sealed_by text,
    -- finished: the kept header fields, one `name: value` a line in their order; other bytes than printable ASCII as
    -- \xNN.
    headers text,
    -- finished: the bytes of the answer, or of headers and body together where sealed.
    body bytea,
    -- Which columns a state has, and no others. One check, because the server reads the text of each anew for every
    -- statement.
    constraint idempotency_records_state check (
        case state
            when 'in_progress' then
                deadline is not null
                and num_nonnulls(
                    asked, next_ask_at, finished_at, expires_at, abandoned_at, conclusion, status, resource, not_kept,
                    sealed_by, headers, body
                ) = 0
            when 'finished' then
                expires_at >= finished_at and finished_at is not null and expires_at is not null
                and conclusion in ('approved', 'declined', 'refused', 'cancelled') and conclusion is not null
                and status is not null
                and num_nonnulls(deadline, asked, next_ask_at, abandoned_at) = 0
                and case
                    when sealed_by is not null then body is not null and headers is null and not_kept is null
                    when not_kept is null then body is not null and headers is not null
                    else body is null and headers is not null and not_kept in ('too-large', 'streamed', 'redacted')
                end
            when 'abandoned' then
                abandoned_at is not null
                and num_nonnulls(
                    deadline, asked, next_ask_at, finished_at, expires_at, conclusion, status, resource, not_kept,
                    sealed_by, headers, body
                ) = 0
            else
                state in ('pending', 'unknown') and asked is not null and next_ask_at is not null
                and num_nonnulls(
                    deadline, finished_at, expires_at, abandoned_at, conclusion, status, resource, not_kept, sealed_by,
                    headers, body
                ) = 0
        end
    )
);

-- For lists, and only for them.
create index idempotency_records_by_position on idempotency_records (position);

-- For the purge. Promises of one length end in the order of their start, so this index grows at its end.
create index idempotency_records_by_expiry on idempotency_records (expires_at) where state = 'finished';

-- For recovery: whose outcome is to be asked about, and from when on. Holds open records only, so it stays small.
create index idempotency_records_by_due on idempotency_records (tenant, (coalesce(next_ask_at, deadline)))
    where state in ('pending', 'unknown') or (state = 'in_progress' and may_be_sent);
