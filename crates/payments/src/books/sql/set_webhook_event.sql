update webhook_events set state = ?2, news = null where id = ?1
