-- The lesson server's ledger: lines are only ever appended, and nothing about them is unique but their place. A charge
-- that is made twice is two lines; no second net catches what the engine lets through.
create table lesson_ledger (
    line     integer primary key autoincrement,
    tenant   text    not null check (tenant <> ''),
    order_id text    not null check (order_id <> ''),
    amount   integer not null check (amount > 0),
    currency text    not null check (length(currency) = 3)
) strict;

create index lesson_ledger_by_order on lesson_ledger (tenant, order_id);

create trigger lesson_ledger_is_never_changed before update on lesson_ledger
begin select raise(abort, 'the ledger is append-only'); end;

create trigger lesson_ledger_is_never_shortened before delete on lesson_ledger
begin select raise(abort, 'the ledger is append-only'); end;
