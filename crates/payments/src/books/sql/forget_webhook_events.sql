delete from webhook_events
where id in (select id from webhook_events where received_at < ?1 and state <> 'parked' order by received_at limit ?2)
