-- Changes a record that is there, by its fence. May use memory above the limit: what was claimed must be able to end.
--
-- The steps are those of core's table, and what they do is compared with it over random histories. Each takes the record's
-- fields and changes them, or answers false where the table does not have the step.
local function enter(fields, state)
    fields.state = state
    fields.deadline, fields.asked, fields.next_ask_at, fields.abandoned_at = nil, nil, nil, nil
    return true
end

local function is_unknown(fields)
    return fields.state == 'unknown' or fields.state == 'pending'
end

local function is_running(fields)
    return fields.state == 'in_progress'
end

local STEPS = {}

STEPS['takeover'] = function(fields, attempt, operation_timeout, attempt_deadline)
    local is_lost = is_running(fields) and fields.deadline and tonumber(fields.deadline) <= now
    if not (is_lost or is_unknown(fields)) then
        return false
    end
    fields.attempt_id = attempt
    fields.attempts = digits(fields.attempts + 1)
    fields.attempt_started_at = digits(now)
    fields.latest_send_at = digits(math.max(tonumber(fields.latest_send_at), now + attempt_deadline))
    enter(fields, 'in_progress')
    fields.deadline = digits(now + operation_timeout)
    return true
end

-- The rest are names and values.
STEPS['finish'] = function(fields, response_ttl, ...)
    if fields.state == 'finished' then
        return false
    end
    enter(fields, 'finished')
    fields.finished_at = digits(now)
    fields.expires_at = digits(now + response_ttl)
    local answer = {...}
    for at = 1, #answer, 2 do
        fields[answer[at]] = answer[at + 1]
    end
    return true
end

STEPS['release'] = function(fields)
    return is_running(fields) and not (fields.may_be_sent == '1' and tonumber(fields.attempts) > 1)
end

STEPS['mark-unknown'] = function(fields, state, ask_after)
    if not (is_running(fields) or is_unknown(fields)) then
        return false
    end
    fields.latest_send_at = digits(math.min(tonumber(fields.latest_send_at), now))
    if state == 'pending' then
        fields.sighted = '1'
    end
    enter(fields, state)
    fields.asked = '0'
    fields.next_ask_at = digits(now + ask_after)
    return true
end

STEPS['ask-again'] = function(fields, state, after, sighted)
    if not is_unknown(fields) then
        return false
    end
    if sighted == '1' then
        fields.sighted = '1'
    end
    local asked = digits(fields.asked + 1)
    enter(fields, state)
    fields.asked = asked
    fields.next_ask_at = digits(now + after)
    return true
end

STEPS['stamp-deadline'] = function(fields, operation_timeout)
    if not is_running(fields) or fields.deadline then
        return false
    end
    fields.deadline = digits(now + operation_timeout)
    return true
end

STEPS['abandon'] = function(fields)
    if not is_unknown(fields) then
        return false
    end
    enter(fields, 'abandoned')
    fields.abandoned_at = digits(now)
    return true
end

local step = ARGV[5]
if not before.state or not fence_matches() then
    return refused()
end
local after = {}
for name, value in pairs(before) do
    after[name] = value
end
if not STEPS[step](after, unpack(ARGV, 6)) then
    return refused()
end
if step == 'release' then
    forget()
else
    after.version = digits(before.version + 1)
    keep(after)
end
return {1, now, flat}
