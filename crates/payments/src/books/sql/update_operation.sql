update operations
set standing = ?2, reference = coalesce(reference, ?3), decline_code = ?4, settled_at = ?5, sent_at = ?6
where id = ?1
