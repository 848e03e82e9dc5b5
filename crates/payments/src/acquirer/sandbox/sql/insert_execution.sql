insert into executions (
    operation, kind, tenant, payment, order_id, payment_method, captures_at_once, amount, currency, outcome,
    decline_code, created_at, decided_at, captured
) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
