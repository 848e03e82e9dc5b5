-- The next tenant with open records; one step in the index, however many records lie between.
select min(tenant) from idempotency_records
where (state in ('pending', 'unknown') or (state = 'in_progress' and may_be_sent = 1)) and tenant > ?1
