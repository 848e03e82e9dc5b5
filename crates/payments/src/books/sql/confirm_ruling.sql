update rulings set confirmation = ?2, confirmed_at = ?3 where operation = ?1 and confirmation is null
