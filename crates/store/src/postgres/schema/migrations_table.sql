-- Which changes of the schema this database has seen.
create table if not exists unavez_migrations (
    -- Whose tables: `store`, or the name of a service on top of it.
    component text not null,
    -- From 1, without gaps.
    number integer not null check (number >= 1),
    name text not null,
    -- Of the migration's text: an applied migration is never edited.
    checksum text not null,
    applied_at bigint not null,
    primary key (component, number)
);

-- One row, locked by whoever migrates: an advisory lock would not pass every pooler, nor every database.
create table if not exists unavez_migrations_lock (
    one integer primary key check (one = 1)
);

insert into unavez_migrations_lock (one) values (1) on conflict do nothing;
