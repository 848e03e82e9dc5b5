-- What the row of an operation outside tells of its own history.
select instance, sent_at, settled_at from operations where id = ?1 and account is not null
