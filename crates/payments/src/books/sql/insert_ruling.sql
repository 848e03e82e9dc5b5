insert into rulings (operation, ruled_at, ruling, operator, reason, confirmation, confirmed_at, ask_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
