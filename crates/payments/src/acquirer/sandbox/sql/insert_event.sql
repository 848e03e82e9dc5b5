insert into events (event, tenant, body, due_at, deliveries_left) values (?1, ?2, ?3, ?4, ?5)
