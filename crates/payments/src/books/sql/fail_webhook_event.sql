insert into webhook_events (account, event, state, failures, received_at, operation)
values (?1, ?2, 'failing', 1, ?3, ?4)
on conflict (account, event) do update set failures = failures + 1
returning failures
