create table if not exists orders (
    id text primary key check (length(id) between 1 and 64),
    amount integer not null check (amount > 0),
    currency text not null,
    payment_method text not null
) strict, without rowid;
