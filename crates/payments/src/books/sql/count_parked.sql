select count(*) from webhook_events where state = 'parked'
