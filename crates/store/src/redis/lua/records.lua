-- What the scripts that write a record have in common. A record is a hash; all keys of a step lie in one slot.
local record, list, due, expiry = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

-- Ages are measured on the server's clock; tests tell another. Both are whole microseconds, which a double holds exactly
-- until the year 2255.
local clock = redis.call('TIME')
local server = clock[1] * 1000000 + clock[2]
local now = tonumber(ARGV[1]) or server

local id, expected_version, expected_attempt = ARGV[2], ARGV[3], ARGV[4]

-- A number as text: Lua's own conversion keeps 14 digits.
local function digits(number)
    return string.format('%.0f', number)
end

local flat = redis.call('HGETALL', record)
local before = {}
for at = 1, #flat, 2 do
    before[flat[at]] = flat[at + 1]
end

local function fence_matches()
    return (before.version or '') == expected_version and (before.attempt_id or '') == expected_attempt
end

-- Nothing was written; this is what stands there.
local function refused()
    return {0, now, flat}
end

-- Under which name the record is to be asked about, if it is: ordered by tenant, then by time.
local function due_entry(fields)
    local at
    if fields.state == 'pending' or fields.state == 'unknown' then
        at = fields.next_ask_at
    elseif fields.state == 'in_progress' and fields.may_be_sent == '1' then
        at = fields.deadline
    end
    return at and fields.tenant .. '\0' .. string.format('%016.0f', at) .. '\0' .. id
end

local function forget()
    redis.call('DEL', record)
    redis.call('ZREM', list, id)
    redis.call('ZREM', expiry, id)
    local entry = due_entry(before)
    if entry then
        redis.call('ZREM', due, entry)
    end
end

-- Puts `after` in place of what was there, the indexes and the end of the promise with it.
local function keep(after)
    forget()
    local fields = {}
    for name, value in pairs(after) do
        fields[#fields + 1] = name
        fields[#fields + 1] = value
    end
    redis.call('HSET', record, unpack(fields))
    redis.call('ZADD', list, after.position, id)
    local entry = due_entry(after)
    if entry then
        redis.call('ZADD', due, 0, entry)
    end
    if after.state == 'finished' then
        redis.call('ZADD', expiry, after.expires_at, id)
        -- The server deletes it when the promise is over, where that is measured on its clock.
        if now == server then
            redis.call('PEXPIREAT', record, digits(math.ceil(after.expires_at / 1000)))
        end
    end
end

