-- An entry that a crash left over from an unfinished filing is there already.
insert into {index} (digest, position) values (?1, ?2) on conflict do nothing
