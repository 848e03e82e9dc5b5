select state from webhook_events where account = ?1 and event = ?2
