-- What operators ruled by hand, one row for each operation that was settled so. Where the acquirer was silent it is asked
-- again, until it confirms the ruling or contradicts it; the answer that was given stays. Never deleted.
create table rulings (
    id integer primary key,
    -- operations.id
    operation integer not null unique,
    ruled_at integer not null,
    ruling text not null check (ruling = 'done' or ruling = 'failed'),
    -- Who said so, and why.
    operator text not null check (length(operator) between 1 and 255),
    reason text not null check (length(reason) between 1 and 1000),
    -- What the acquirer says of it: agrees, contradicts, or proves_nothing where it has forgotten by now. Null: it was
    -- silent when the ruling was made, and has not answered since.
    confirmation text check (
        confirmation is null or confirmation = 'agrees' or confirmation = 'contradicts' or confirmation = 'proves_nothing'
    ),
    confirmed_at integer check ((confirmed_at is null) = (confirmation is null)),
    -- How often it was asked in vain, and when it is asked next.
    asked integer not null default 0 check (asked >= 0),
    ask_at integer not null
) strict;

-- The few that are not confirmed, by their next question.
create index rulings_to_confirm on rulings (ask_at) where confirmation is null;
