select id, event, tenant, body, failures, deliveries_left from events where due_at <= ?1 order by due_at, id limit ?2
