#!lua flags=no-writes
-- Not of the hot set. Promises that are over, the oldest first. KEYS: a shard's expiry. ARGV: the time in tests, the most
-- entries.
local clock = redis.call('TIME')
local now = tonumber(ARGV[1]) or clock[1] * 1000000 + clock[2]
local over = string.format('%.0f', now)
return {now, redis.call('ZRANGE', KEYS[1], '-inf', over, 'BYSCORE', 'LIMIT', 0, ARGV[2], 'WITHSCORES')}
