select ruled_at, ruling, operator, reason, confirmation, confirmed_at, asked from rulings where operation = ?1
