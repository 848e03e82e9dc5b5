-- Not of the hot set: asked once by each process.
select max(r.position) from idempotency_records r
