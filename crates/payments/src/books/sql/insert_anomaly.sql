insert into anomalies (found_at, reason, operation, heard, account, event, detail, proposal)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
