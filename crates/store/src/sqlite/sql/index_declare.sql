insert into unavez_indexes (name, filed_to) values (?1, 0) on conflict do nothing
