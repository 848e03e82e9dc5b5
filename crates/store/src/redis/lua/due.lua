#!lua flags=no-writes
-- Not of the hot set. The oldest due entries of every tenant: one step in the index for each tenant, however many entries
-- lie between. KEYS: a shard's due. ARGV: the time in tests, the most entries of a tenant.
local clock = redis.call('TIME')
local now = tonumber(ARGV[1]) or clock[1] * 1000000 + clock[2]
local entries = {}
local from = '-'
while true do
    local first = redis.call('ZRANGE', KEYS[1], from, '+', 'BYLEX', 'LIMIT', 0, 1)[1]
    if not first then
        return {now, entries}
    end
    local tenant = string.match(first, '^[^%z]*')
    local last = '(' .. tenant .. '\0' .. string.format('%016.0f', now) .. '\1'
    for _, entry in ipairs(redis.call('ZRANGE', KEYS[1], '[' .. tenant, last, 'BYLEX', 'LIMIT', 0, ARGV[2])) do
        entries[#entries + 1] = entry
    end
    from = '(' .. tenant .. '\1'
end
