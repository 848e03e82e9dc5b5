select count(*) from operations where kind = 'payment' and account is not null
