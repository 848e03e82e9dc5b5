-- The delete itself re-checks what the index promised.
delete from idempotency_records
where state = 'finished' and expires_at <= ?1 and position in (
    select position from idempotency_records
    where state = 'finished' and expires_at <= ?1
    order by expires_at
    limit ?2
)
returning id, position
