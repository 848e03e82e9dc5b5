-- Not of the hot set. Every tenant's oldest before any tenant's second oldest: one step in the index for each tenant,
-- however many records lie between.
with recursive clock as materialized (
    select coalesce($1, (extract(epoch from clock_timestamp()) * 1000000)::bigint) as now
),
tenants (tenant) as (
    (
        select r.tenant from idempotency_records r
        where r.state in ('pending', 'unknown') or (r.state = 'in_progress' and r.may_be_sent)
        order by r.tenant limit 1
    )
    union all
    select (
        select r.tenant from idempotency_records r
        where (r.state in ('pending', 'unknown') or (r.state = 'in_progress' and r.may_be_sent)) and r.tenant > t.tenant
        order by r.tenant limit 1
    )
    from tenants t where t.tenant is not null
),
picked as (
    select d.id, d.due_at, row_number() over (partition by t.tenant order by d.due_at, d.id) as turn
    from clock, tenants t, lateral (
        select r.id, coalesce(r.next_ask_at, r.deadline) as due_at from idempotency_records r
        where (r.state in ('pending', 'unknown') or (r.state = 'in_progress' and r.may_be_sent))
            and r.tenant = t.tenant and coalesce(r.next_ask_at, r.deadline) <= clock.now
        order by coalesce(r.next_ask_at, r.deadline)
        limit $2
    ) d
    order by turn, d.due_at, d.id
    limit $2
)
select
    r.id, r.tenant, r.key, r.fingerprint, r.version, r.attempt_id, r.attempts, r.may_be_sent, r.sighted, r.created_at,
    r.attempt_started_at, r.latest_send_at, r.state, r.deadline, r.asked, r.next_ask_at, r.finished_at, r.expires_at,
    r.abandoned_at, r.conclusion, r.status, r.resource, r.not_kept, r.sealed_by, r.headers, r.body,
    clock.now
from clock
left join picked on true
left join idempotency_records r on r.id = picked.id
order by picked.turn, picked.due_at, picked.id
