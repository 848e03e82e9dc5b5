-- Known outside. What is decided stays so, and a released operation was never sent.
update operations set standing = 'pending' where id = ?1 and (standing = 'open' or standing = 'unknown')
