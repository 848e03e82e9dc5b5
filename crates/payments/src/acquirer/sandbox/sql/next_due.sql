select min(due_at) from events where due_at is not null
