delete from {index} where digest = ?1 and position = ?2
