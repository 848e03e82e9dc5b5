-- The caller knows that the operation has no charge. The number is its record's position.
insert into charges (
    id, operation, tenant, order_id, amount, currency, status, amount_captured, amount_refunded, created_at, fingerprint,
    request_id, metadata, suspected_duplicate_of
)
values (?13, ?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, ?9, ?10, ?11, ?12)
