select id, account, event, operation, news from webhook_events
where state = 'parked' and received_at < ?1
order by received_at
limit ?2
