-- Accounting inside the check: one field per tenant × endpoint × second × outcome (docs/redis.md).
-- Count and cost travel in one number, cost × 2^24 + 1. Writes S:u, S:a and S:d:<tenant>.
local drained = {}
local account = { drained = drained }
H.account = account

-- A hash of few short fields is a list that Redis searches from its start, 3 µs at 300 fields. One value
-- over 64 bytes makes it a table from the beginning; readers pass over the field `_`.
local PADDING = '.................................................................'

function account.open(shard)
  call('HSETNX', H.keys.usage(shard), '_', PADDING)
  call('HSETNX', H.keys.touched(shard), '_', PADDING)
end

local COARSE_AFTER = 60000000
local DENIALS_KEPT, DENIALS_TTL = 100, 7 * 86400000
local ARRIVALS_KEPT = 100000

local second, fine, coarse = -1, nil, nil

-- Seconds while the drain keeps up; minutes once it is over 60 s late, so that memory stays bounded.
local function stamp(shard, now)
  local this = (now - now % 1000000) / 1000000
  if this ~= second then
    second, fine, coarse = this, format('s%08x', this), format('m%08x', this - this % 60)
  end
  local since = drained[shard]
  if not since then
    drained[shard] = now
  elseif now - since > COARSE_AFTER then
    return coarse
  end
  return fine
end

local MOST_FIELDS = 8

local function overflowed(reply)
  return type(reply) == 'table' and find(reply.err, 'overflow') ~= nil
end

-- Past 2^53 the sum would lose the count, past 2^63 Redis refuses it: then two steps, or a further field.
-- Any other refusal (rights, a key of another type) leaves the decision uncounted rather than undone.
local function add_large(key, field, cost, count)
  for _ = 1, MOST_FIELDS do
    local reply = protected_call('HINCRBY', key, field, format('%.0f', cost * 16777216))
    if not overflowed(reply) then
      if type(reply) ~= 'table' then protected_call('HINCRBY', key, field, count) end
      return
    end
    field = field .. '+'
  end
end

-- What a call of that cost adds, as the text that Redis wants.
local increments = { '16777217' }

function account.count(shard, usage_key, now, number, endpoint, outcome, cost, count)
  local field = stamp(shard, now) .. number .. endpoint .. outcome
  if cost < 1048576 then
    local added = not count and increments[cost] or cost * 16777216 + (count or 1)
    if not overflowed(protected_call('HINCRBY', usage_key, field, added)) then return end
  end
  add_large(usage_key, field, cost, count or 1)
end

function account.arrival(shard, who, subject, now, cost, outcome)
  local key = H.keys.arrivals(shard)
  local item = format('%s %s %.0f %d %s', who, sub(sha1hex(subject), 1, 16), now, cost, outcome)
  local length = call('RPUSH', key, item)
  if length > ARRIVALS_KEPT then call('LTRIM', key, -ARRIVALS_KEPT, -1) end
end

function account.denial(shard, number, endpoint, now, id, reason, cost, retry, revision, subject)
  local key = H.keys.denials(shard, number)
  local item = format('%.0f %s %s %s %d %.0f %d %s', now, endpoint, id, reason, cost, retry, revision, subject)
  local length = call('LPUSH', key, item)
  if length > DENIALS_KEPT + 28 then call('LTRIM', key, 0, DENIALS_KEPT - 1) end
  if length % 16 == 1 then call('PEXPIRE', key, DENIALS_TTL) end
end
