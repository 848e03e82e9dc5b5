#!lua flags=no-writes
-- Not of the hot set. The newest entries below a position, and more of them only where the last ones share theirs, so that
-- nothing is left out between two pages. KEYS: a shard's list. ARGV: the time in tests, where to begin, the most entries.
local clock = redis.call('TIME')
local now = tonumber(ARGV[1]) or clock[1] * 1000000 + clock[2]
local entries = redis.call('ZRANGE', KEYS[1], ARGV[2], '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, ARGV[3], 'WITHSCORES')
if #entries > 0 and #entries == 2 * ARGV[3] then
    entries = redis.call('ZRANGE', KEYS[1], ARGV[2], entries[#entries], 'BYSCORE', 'REV', 'WITHSCORES')
end
return {now, entries}
