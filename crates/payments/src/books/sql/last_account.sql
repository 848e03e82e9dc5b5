-- Where the last operation went that went anywhere.
select account from operations where account is not null order by id desc limit 1
