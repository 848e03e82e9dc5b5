insert into default_tenant (one, name) values (1, ?1)
