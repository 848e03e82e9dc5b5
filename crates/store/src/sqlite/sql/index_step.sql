select digest, position from {index} where (digest, position) > (?1, ?2) order by digest, position limit ?3
