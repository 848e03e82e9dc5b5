#!lua flags=allow-oom
-- Not of the hot set. Deletes what is expired of some records and takes it from the indexes, also where the server has
-- deleted the record already; answers how many. KEYS: a shard's list and expiry, then the records. ARGV: the time in tests,
-- then their ids.
local clock = redis.call('TIME')
local now = tonumber(ARGV[1]) or clock[1] * 1000000 + clock[2]
local list, expiry = KEYS[1], KEYS[2]
local deleted = 0
for at = 2, #ARGV do
    local id, record = ARGV[at], KEYS[at + 1]
    -- A key that was claimed again has no end any more.
    local expires_at = redis.call('ZSCORE', expiry, id)
    if expires_at and tonumber(expires_at) <= now then
        redis.call('DEL', record)
        redis.call('ZREM', list, id)
        redis.call('ZREM', expiry, id)
        deleted = deleted + 1
    end
end
return deleted
