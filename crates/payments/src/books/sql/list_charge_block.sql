insert or ignore into charge_blocks (tenant, block) values (?1, ?2)
