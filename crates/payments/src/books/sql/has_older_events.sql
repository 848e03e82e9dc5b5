select exists (select 1 from webhook_events where received_at < ?1 and state <> 'parked')
