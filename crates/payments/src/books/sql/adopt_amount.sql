-- The caller named no amount, and the acquirer knows the operation with this one.
update operations set amount = ?2 where id = ?1 and standing = 'open'
