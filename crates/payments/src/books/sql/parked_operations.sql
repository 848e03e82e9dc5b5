select distinct operation from webhook_events where state = 'parked' order by operation
