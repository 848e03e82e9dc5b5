insert into webhook_events (account, event, state, received_at, operation, news)
values (?1, ?2, ?3, ?4, ?5, ?6)
on conflict (account, event) do update set state = excluded.state, operation = excluded.operation, news = excluded.news
