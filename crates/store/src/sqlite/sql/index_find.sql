select position from {index} where digest = ?1
