select id, account, event, news from webhook_events where operation = ?1 and state = 'parked' order by id
