select method, path, headers, body from operations where id = ?1 and account is not null
