#!lua flags=no-writes
-- A record and the time of the reading. KEYS: the record. ARGV: the time, in tests.
local clock = redis.call('TIME')
local now = tonumber(ARGV[1]) or clock[1] * 1000000 + clock[2]
return {now, redis.call('HGETALL', KEYS[1])}
