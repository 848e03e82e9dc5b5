-- What the sandbox executed, and what it has to tell. Times are whole microseconds since 1970-01-01 UTC on its clock;
-- amounts are whole minor units; operation ids are the 16 bytes behind `op_`. Rows are never deleted.

-- One row per execution. An operation has several only where deduplication is off or its window was over: that they
-- can be counted is what this acquirer is for, so nothing here is unique but the row.
create table executions (
    -- Order of execution.
    id integer primary key,
    operation blob not null check (length(operation) = 16),
    -- (`or`, because a list of three after `in` builds a temporary tree for every row written.)
    kind text not null check (kind = 'payment' or kind = 'capture' or kind = 'void' or kind = 'refund'),
    tenant text not null check (length(tenant) between 1 and 128),
    -- executions.id of the payment that is captured, voided or refunded.
    payment integer,
    -- Of payments only.
    order_id text check (order_id is null or length(order_id) between 1 and 128),
    payment_method text,
    captures_at_once integer check (captures_at_once in (0, 1)),
    amount integer not null check (amount between 1 and 999999999999),
    currency text not null check (currency glob '[A-Z][A-Z][A-Z]'),
    -- Settled with the execution, and told from `decided_at` on: pending until then.
    outcome text not null check (outcome in ('approved', 'declined')),
    decline_code text,
    created_at integer not null,
    decided_at integer not null check (decided_at >= created_at),
    -- What steps have made of a payment.
    captured integer not null default 0 check (captured between 0 and amount),
    refunded integer not null default 0 check (refunded between 0 and captured),
    voided integer not null default 0 check (voided in (0, 1)),
    check ((kind = 'payment') = (payment is null)),
    check ((kind = 'payment') = (order_id is not null)),
    check ((kind = 'payment') = (payment_method is not null)),
    check ((kind = 'payment') = (captures_at_once is not null)),
    check ((outcome = 'declined') = (decline_code is not null)),
    check (kind = 'payment' or (captured = 0 and voided = 0)),
    check (outcome = 'approved' or (captured = 0 and voided = 0)),
    check (voided = 0 or captured = 0)
) strict;

-- Every request looks its id up.
create index executions_by_operation on executions (operation);

-- Webhooks, each with the bytes of all its deliveries. What is due is a small part of them.
create table events (
    id integer primary key,
    -- `evt_` and these bytes in hex.
    event blob not null unique check (length(event) = 16),
    tenant text not null,
    body text not null,
    -- When it is to be sent (again); null: never, it was taken or given up.
    due_at integer,
    -- How often sending failed.
    failures integer not null default 0 check (failures >= 0),
    -- Deliveries that are still to succeed.
    deliveries_left integer not null check (deliveries_left between 0 and 2),
    check (due_at is null or deliveries_left > 0)
) strict;

create index events_by_due on events (due_at) where due_at is not null;
