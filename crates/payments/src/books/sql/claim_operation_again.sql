-- Nothing had been sent for it, so the request is composed anew, for the acquirer of today.
update operations
set standing = 'open', account = ?2, method = ?3, path = ?4, headers = ?5, body = ?6
where id = ?1 and standing = 'released'
