\set number random(1, 9000000000000000000)
insert into textbook (tenant, key, fingerprint, state) values ('default', 'k-' || :number, 'f3e62a377fa6c7d378c6fd23f519b29ef3e62a377fa6c7d378c6fd23f519b29e', 'started') on conflict do nothing returning key;
update textbook set state = 'finished', status = 201, body = repeat('x', 200) where tenant = 'default' and key = 'k-' || :number;
