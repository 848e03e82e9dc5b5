-- The caller knows that the operation has no charge.
insert into charges (
    operation, tenant, order_id, amount, currency, status, amount_captured, amount_refunded, created_at, fingerprint,
    request_id, metadata, suspected_duplicate_of
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, ?9, ?10, ?11, ?12)
