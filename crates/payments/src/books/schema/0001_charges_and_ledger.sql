-- Charges and the ledger. Times are whole microseconds since 1970-01-01 UTC on the store's clock; amounts are whole
-- minor units; ids are 16 raw bytes (`hex(operation)` shows the digits of `ch_` and `op_` ids). Rows are never deleted:
-- an operation has one outcome for ever.

-- Names are long and every row has one, so rows carry a number.
create table tenants (
    id integer primary key,
    name text not null unique check (length(name) between 1 and 128)
) strict;

-- One row per operation that charges, declined ones included. It outlives the idempotency record and answers for it.
create table charges (
    -- Order of commits: appends at the table's end. The position of the idempotency record it came with.
    id integer primary key,
    -- First 16 bytes of the hash of (realm, tenant, key): also the id of the idempotency record. Unique: the one writer
    -- looks it up before it adds a row. Found through idempotency_records_by_id, which keeps its entry for ever.
    operation blob not null check (length(operation) = 16),
    tenant integer not null,
    -- The caller's order; not unique, since an order may be paid in parts.
    order_id text not null check (length(order_id) between 1 and 128),
    amount integer not null check (amount between 1 and 999999999999),
    -- ISO 4217.
    currency text not null check (currency glob '[A-Z][A-Z][A-Z]'),
    -- (`or`, because a list of three after `in` builds a temporary tree for every row written.)
    status text not null check (
        status = 'captured' or status = 'created' or status = 'pending' or status = 'authorized' or status = 'declined'
            or status = 'voided'
    ),
    -- What moved, and what moved back. Each has its pair of accounts in ledger_entries.
    amount_captured integer not null check (amount_captured between 0 and amount),
    amount_refunded integer not null check (amount_refunded between 0 and amount_captured),
    -- When the key was claimed.
    created_at integer not null,
    -- Digest of the request that charged: a repeat after the record's time is compared with it.
    fingerprint blob not null,
    -- Name of the request that charged; `req_` and these bytes in hex.
    request_id blob not null check (length(request_id) = 16),
    -- A JSON object of strings; null for none.
    metadata text check (metadata is null or length(metadata) >= 2),
    check ((status = 'captured') = (amount_captured > 0))
) strict;

-- The tree of charges by a hash of tenant and order. Filed in bulk and in the order of digests, since a page for each
-- charge would be most of what a commit writes; see unavez_indexes.
create table charges_by_order (
    digest blob not null check (length(digest) = 16),
    -- charges.id
    position integer not null,
    primary key (digest, position)
) strict, without rowid;

-- In which blocks of 256 numbers (charges.id / 256) a tenant has charges: its list walks through those, newest first.
create table charge_blocks (
    tenant integer not null,
    block integer not null check (block >= 0),
    primary key (tenant, block)
) strict, without rowid;

-- The few that did not simply succeed. (Every charge through an acquirer outside begins as created: those are found through
-- their operations, which are under way or released.)
create index charges_by_status on charges (tenant, status) where status <> 'captured' and status <> 'created';

-- Double entry: each row is a balanced pair, one account debited and one credited with the same amount. Only ever
-- appended to.
create table ledger_entries (
    -- Order of commits.
    id integer primary key,
    tenant integer not null,
    -- charges.id
    charge integer not null,
    -- Counts the entries of one charge from 1; with the charge's id it makes the entry's id.
    number integer not null check (number >= 1),
    kind text not null check (kind in ('capture', 'refund')),
    debit text not null check (debit in ('customer', 'merchant')),
    credit text not null check (credit in ('customer', 'merchant')),
    amount integer not null check (amount between 1 and 999999999999),
    currency text not null check (currency glob '[A-Z][A-Z][A-Z]'),
    created_at integer not null,
    check (debit <> credit),
    check ((kind = 'capture') = (debit = 'customer'))
) strict;

-- A charge's entries. Grows at its end, apart from later captures and refunds.
create unique index ledger_entries_by_charge on ledger_entries (charge, number);

-- In which blocks of 256 numbers (ledger_entries.id / 256) a tenant has entries.
create table ledger_entry_blocks (
    tenant integer not null,
    block integer not null check (block >= 0),
    primary key (tenant, block)
) strict, without rowid;

create trigger ledger_entries_are_never_changed before update on ledger_entries
begin
    select raise(abort, 'the ledger is append-only');
end;

create trigger ledger_entries_are_never_deleted before delete on ledger_entries
begin
    select raise(abort, 'the ledger is append-only');
end;
