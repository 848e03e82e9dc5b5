-- Creates the record of a key that nobody holds, or replaces an expired one. Refused when memory is full, as every script
-- that does not say otherwise.
local tenant, key, fingerprint, attempt, may_be_sent = ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local operation_timeout, attempt_deadline, position = ARGV[10], ARGV[11], ARGV[12]

if not fence_matches() then
    return refused()
end
if before.state then
    local is_another = before.tenant ~= tenant or before.key ~= key
    local is_promised = before.state ~= 'finished' or tonumber(before.expires_at) > now
    if is_another or is_promised or before.attempt_id == attempt then
        return refused()
    end
end
keep({
    form = '1',
    tenant = tenant,
    key = key,
    fingerprint = fingerprint,
    version = '1',
    attempt_id = attempt,
    attempts = '1',
    may_be_sent = may_be_sent,
    sighted = '0',
    position = position,
    created_at = digits(now),
    attempt_started_at = digits(now),
    latest_send_at = digits(now + attempt_deadline),
    state = 'in_progress',
    deadline = digits(now + operation_timeout),
})
return {1, now, {}}
