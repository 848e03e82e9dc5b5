-- The same of the tables that an acquirer outside brings.
select
    (select count(*) from operations where charge not in (select id from charges))
    + (select count(*) from key_events where operation not in (select id from operations))
    + (select count(*) from charge_changes where charge not in (select id from charges))
