insert into key_events (operation, at, kind, attempt, version, instance, request_id, caller, detail)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
