-- The first of each host, the host that has waited longest first, but for hosts that have their share already (?2).
with recursive hosts (host) as (
    select min(host) from unavez_outbox_operations where tenant = ?1 and state = 'waiting'
    union all
    select (
        select min(later.host) from unavez_outbox_operations later
        where later.tenant = ?1 and later.state = 'waiting' and later.host > hosts.host
    )
    from hosts where hosts.host is not null
),
firsts (id) as (
    select (
        select first.id from unavez_outbox_operations first
        where first.tenant = ?1 and first.state = 'waiting' and first.host = hosts.host
        order by first.due_at_us, first.id limit 1
    )
    from hosts
    where hosts.host is not null and hosts.host not in (select value from json_each(?2))
)
select id, key, method, url, host, headers, body, created_at_us, digest, received, lease, due_at_us
from unavez_outbox_operations join firsts using (id)
order by due_at_us, id limit 1;
