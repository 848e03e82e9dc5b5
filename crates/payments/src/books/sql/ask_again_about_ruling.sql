update rulings set asked = asked + 1, ask_at = ?2 where operation = ?1 and confirmation is null
