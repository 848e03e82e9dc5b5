insert into restores (restored_at, copy_of, ask_first_until) values (?1, ?2, ?3)
