select coalesce($1, (extract(epoch from clock_timestamp()) * 1000000)::bigint) as now
