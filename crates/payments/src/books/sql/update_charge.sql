update charges
set status = ?2, amount_captured = ?3, amount_refunded = ?4, amount_refunding = ?5, next_action = ?6
where id = ?1
