-- Claimed, and not sent yet.
insert into charges (
    id, operation, tenant, order_id, amount, currency, status, amount_captured, amount_refunded, created_at, fingerprint,
    request_id, metadata, suspected_duplicate_of
)
values (?11, ?1, ?2, ?3, ?4, ?5, 'created', 0, 0, ?6, ?7, ?8, ?9, ?10)
