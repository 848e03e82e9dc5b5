-- What an acquirer outside brings: operations that take time, what was sent for them, what was heard about them, and what
-- does not fit together. Times, amounts and ids as in 0001.

-- The part of a charge's captured amount that refunds under way have reserved: all refunds together are never more than
-- was captured, whatever becomes of them.
alter table charges add column amount_refunding integer not null default 0
    check (amount_refunding >= 0 and amount_refunding <= amount_captured - amount_refunded);

-- An earlier charge of the same order under another key, where that was suspected when this one was claimed:
-- charges.operation of that one.
alter table charges add column suspected_duplicate_of blob
    check (suspected_duplicate_of is null or length(suspected_duplicate_of) = 16);

-- What the customer has to do, as the acquirer's JSON: passed through while it has not decided.
alter table charges add column next_action text check (next_action is null or status = 'pending');

-- Every change of a charge's amounts after it was inserted. The sums of charges are made of the rows as they were read
-- and of what changed since; the trigger keeps them true whoever changes a row.
create table charge_changes (
    -- Order of commits.
    id integer primary key,
    -- charges.id
    charge integer not null,
    tenant integer not null,
    currency text not null check (currency glob '[A-Z][A-Z][A-Z]'),
    -- 1: the charge's money moved for the first time.
    captures integer not null check (captures in (0, 1)),
    captured integer not null check (captured between 0 and 999999999999),
    refunded integer not null check (refunded between 0 and 999999999999)
) strict;

create trigger charge_amounts_are_followed after update of amount_captured, amount_refunded on charges
when new.amount_captured <> old.amount_captured or new.amount_refunded <> old.amount_refunded
begin
    insert into charge_changes (charge, tenant, currency, captures, captured, refunded)
    values (
        new.id, new.tenant, new.currency, old.amount_captured = 0, new.amount_captured - old.amount_captured,
        new.amount_refunded - old.amount_refunded
    );
end;

-- One row for each operation that is more than a charge in the ledger: every payment, capture, void and refund with an
-- acquirer outside, and every capture, void and refund with the ledger. It outlives the idempotency record and answers for
-- it; a row is never deleted.
create table operations (
    -- Order of claims. The position of the idempotency record it came with; a payment's is its charge's.
    id integer primary key,
    -- The operation's id, and the idempotency record's. Unique, and found, as a charge's.
    operation blob not null check (length(operation) = 16),
    -- charges.id: the charge that a payment makes and the others belong to.
    charge integer not null,
    kind text not null check (kind = 'payment' or kind = 'capture' or kind = 'void' or kind = 'refund'),
    -- Counts the charge's operations of this kind from 1; with the charge's id it makes the refund's id.
    number integer not null check (number >= 1),
    -- Fixed with the claim, also where the caller named none.
    amount integer not null check (amount between 1 and 999999999999),
    -- 1: a payment that is captured at once.
    captures_at_once integer check ((captures_at_once is null) = (kind <> 'payment')),
    -- open: an attempt runs, or its owner is lost; unknown: an attempt ended and nobody knows how; pending: known outside
    -- and not decided; released: certainly nothing was sent, and the key is free.
    standing text not null check (
        standing = 'open' or standing = 'unknown' or standing = 'pending' or standing = 'done'
        or standing = 'declined' or standing = 'released'
    ),
    -- The acquirer and its account. That one alone is asked and sent to. Null: the ledger here was the whole effect.
    account text check (account is null or length(account) between 1 and 128),
    -- The request, stored before the first send: these bytes alone are sent, on every attempt. Headers are a JSON array of
    -- pairs. Secrets are added while sending and are not here.
    method text check ((method is null) = (account is null)),
    path text check ((path is null) = (account is null)),
    headers text check ((headers is null) = (account is null)),
    body blob check ((body is null) = (account is null)),
    -- The acquirer's own name for the operation, once it has given one.
    reference text,
    -- Why it was declined: a word of the acquirer's.
    decline_code text check (decline_code is null or standing = 'declined'),
    -- Digest of the request that claimed the key: a repeat after the record's time is compared with it. A payment's is its
    -- charge's.
    fingerprint blob check ((fingerprint is null) = (kind = 'payment')),
    -- Name of the request that claimed the key.
    request_id blob not null check (length(request_id) = 16),
    -- Which process claimed the key.
    instance text check ((instance is null) = (account is null) and (instance is null or length(instance) between 1 and 64)),
    -- When the key was claimed: nothing was sent before.
    created_at integer not null,
    -- When the request was sent, where it was sent once and the answer to it settled the operation. These three times,
    -- with the process and the request that claimed, are all that happened then: `key_events` has nothing to add.
    sent_at integer check (sent_at is null or (settled_at is not null and account is not null)),
    settled_at integer check ((settled_at is not null) = (standing = 'done' or standing = 'declined')),
    check (captures_at_once is null or captures_at_once = 0 or captures_at_once = 1),
    check (account is not null or standing = 'done')
) strict;

create unique index operations_of_charge on operations (charge, kind, number);

-- A capture or void takes the charge's one slot, and keeps it unless it comes to nothing.
create unique index operations_in_slot on operations (charge)
where (kind = 'capture' or kind = 'void') and standing <> 'declined' and standing <> 'released';

-- The few that are not decided, oldest first.
create index operations_undecided on operations (created_at)
where standing = 'open' or standing = 'unknown' or standing = 'pending';

-- Those that came to nothing; their charges still stand as created.
create index operations_released on operations (charge) where standing = 'released';

-- What else happened to an operation, in the order in which it was written down: what `trace` tells. Off the happy path:
-- that an operation was claimed is told by its own row, and so is that it was sent once and settled by the answer; an
-- operation without a row in `operations` has no events. Only ever appended to.
create table key_events (
    id integer primary key,
    -- operations.id
    operation integer not null,
    -- When it happened, which is not always when it was committed.
    at integer not null,
    kind text not null check (
        kind = 'started' or kind = 'taken_over' or kind = 'sent' or kind = 'answered' or kind = 'asked' or kind = 'webhook'
        or kind = 'settled' or kind = 'released' or kind = 'held' or kind = 'contradicted' or kind = 'operator'
    ),
    -- Attempts started so far, and the record's version after this event; null where no record was touched.
    attempt integer check (attempt is null or attempt >= 1),
    version integer check (version is null or version >= 1),
    -- Which process wrote it.
    instance text not null check (length(instance) between 1 and 64),
    -- The request that caused it; null for the night shift and for webhooks.
    request_id blob check (request_id is null or length(request_id) = 16),
    -- Who caused it: a tenant, an acquirer's account, or an operator.
    caller text check (caller is null or length(caller) between 1 and 255),
    -- In words. Never a secret.
    detail text
) strict;

create index key_events_of_operation on key_events (operation);

create trigger key_events_are_never_changed before update on key_events
begin
    select raise(abort, 'events are append-only');
end;

create trigger key_events_are_never_deleted before delete on key_events
begin
    select raise(abort, 'events are append-only');
end;

-- Events of acquirers, so that each takes effect once. Kept 30 days.
create table webhook_events (
    id integer primary key,
    -- The account it came from, and its id there: unique per source.
    account text not null check (length(account) between 1 and 128),
    event text not null check (length(event) between 1 and 255),
    -- applied: it took effect, or needed none; parked: its operation is not there yet; failing: its work failed and it
    -- will be sent again; anomaly: see `anomalies`.
    state text not null check (state = 'applied' or state = 'parked' or state = 'failing' or state = 'anomaly'),
    -- How often its work failed.
    failures integer not null default 0 check (failures >= 0),
    received_at integer not null,
    -- The operation it names, and what it tells of it, as JSON; kept while it is parked.
    operation blob check (operation is null or length(operation) = 16),
    news text,
    unique (account, event),
    check ((state = 'parked') = (news is not null)),
    check (state <> 'parked' or operation is not null)
) strict;

create index webhook_events_parked on webhook_events (operation) where state = 'parked';

-- Kept 30 days, oldest first.
create index webhook_events_by_time on webhook_events (received_at);

-- What does not fit together, and needs a person. Never deleted.
create table anomalies (
    id integer primary key,
    found_at integer not null,
    -- Which rule was broken; a contradiction is a truth against a final state, all others closed nothing.
    reason text not null check (
        reason in (
            'contradiction', 'second_payment', 'operation', 'amount', 'currency', 'tenant', 'kind', 'parent', 'account', 'malformed',
            'failing', 'never_appeared', 'held'
        )
    ),
    -- The operation it is about, as its id's bytes: it need not be one of ours.
    operation blob check (operation is null or length(operation) = 16),
    -- Where it was heard: an answer, a question, a webhook, the night shift.
    heard text not null check (heard in ('answer', 'question', 'webhook', 'night')),
    -- The account it came from, and the event's id there.
    account text,
    event text,
    -- In words: what was stored, what was heard.
    detail text not null,
    -- What a person may do about it.
    proposal text
) strict;

create index anomalies_of_operation on anomalies (operation) where operation is not null;
