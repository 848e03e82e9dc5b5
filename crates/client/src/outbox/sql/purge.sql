delete from unavez_outbox_operations
where id in (
    select id from unavez_outbox_operations
    where state in ('done', 'refused') and settled_at_us < ?1
    order by settled_at_us limit ?2
);
