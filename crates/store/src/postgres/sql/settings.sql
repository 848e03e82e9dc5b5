-- What acknowledged means here. Databases that only speak like PostgreSQL lack some of these settings.
select
    current_setting('fsync', true) as fsync,
    current_setting('synchronous_commit', true) as synchronous_commit,
    current_setting('synchronous_standby_names', true) as synchronous_standby_names,
    (select count(*) from pg_stat_replication) as standbys
