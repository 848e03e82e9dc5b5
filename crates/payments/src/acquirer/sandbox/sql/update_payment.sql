update executions set captured = ?2, refunded = ?3, voided = ?4 where id = ?1
