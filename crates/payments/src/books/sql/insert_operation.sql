insert into operations (
    id, operation, charge, kind, number, amount, captures_at_once, standing, account, method, path, headers, body,
    fingerprint, request_id, instance, created_at, settled_at
)
values (?18, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
