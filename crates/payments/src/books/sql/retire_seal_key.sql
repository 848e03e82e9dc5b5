update seal_keys set retired_at = ?2 where id = ?1
