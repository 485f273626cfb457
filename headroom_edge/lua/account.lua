-- Accounting inside the check: one field per tenant × endpoint × second × outcome (docs/redis.md).
-- Count and cost share one number, cost × 2^24 + count. Writes S:u, S:a and S:d:<tenant>; S:uo if not drained.
local drained = {}
local account = { drained = drained }
H.account = account

-- Redis keeps a hash of few short fields as a list and searches it linearly: 3 µs at 300 fields. One value
-- over 64 bytes makes it a hash table from the start. Readers skip the field `_`.
local PADDING = '.................................................................'

function account.open(shard)
  call('HSETNX', H.keys.usage(shard), '_', PADDING)
  call('HSETNX', H.keys.touched(shard), '_', PADDING)
end

local COARSE_AFTER = 60000000
local DENIALS_KEPT, DENIALS_TTL = 100, 7 * 86400000
local ARRIVALS_KEPT = 100000

local second, fine, coarse = -1, nil, nil
local looked = {} -- shard → the second in which its size was last checked

-- Memory is bounded while nothing is drained. A shard has at most three hashes of `room` fields: the waiting batch
-- (S:ub), older counters (S:uo) and the current ones (S:u). When S:u is full, the oldest hash is dropped and the others
-- move up. S:ue holds the end of the time that each hash covers, and of what was dropped (`lost`).
local function drop_batch(shard)
  local keys = H.keys
  local ends, batch, older = keys.usage_ends(shard), keys.usage_batch(shard), keys.usage_older(shard)
  if call('EXISTS', batch) == 1 then
    call('UNLINK', batch, keys.arrivals_batch(shard))
    call('HSET', ends, 'lost', call('HGET', ends, 'batch') or call('HGET', ends, 'older'))
  end
  local last = call('HGET', ends, 'older')
  call('RENAME', older, batch)
  call('HSET', batch, 'id', sub(sha1hex(shard .. last), 1, 32))
  call('HSET', ends, 'batch', last)
end

local function make_room(shard, now)
  if looked[shard] == second then return end
  looked[shard] = second
  local header, keys = H.plans.shards[shard], H.keys
  local usage = keys.usage(shard)
  if not header or not header.room or call('HLEN', usage) <= header.room then return end
  -- The request is charged already, so nothing may fail any more.
  if H.reach.is_moving(shard) then return end
  if call('EXISTS', keys.usage_older(shard)) == 1 then drop_batch(shard) end
  call('RENAME', usage, keys.usage_older(shard))
  call('HSET', keys.usage_ends(shard), 'older', format('%.0f', now))
  account.open(shard)
end

-- The time part of a field: seconds while the drain keeps up, minutes once it is over 60 s late.
local function stamp(shard, now)
  local this = (now - now % 1000000) / 1000000
  if this ~= second then
    second, fine, coarse = this, format('s%08x', this), format('m%08x', this - this % 60)
  end
  local since = drained[shard]
  if not since then
    drained[shard] = now
  elseif now - since > COARSE_AFTER then
    make_room(shard, now)
    return coarse
  end
  return fine
end

local MOST_FIELDS = 8

local function overflowed(reply)
  return type(reply) == 'table' and find(reply.err, 'overflow') ~= nil
end

-- Above 2^53 Lua would lose the count, so cost and count are added in two steps. Above 2^63 Redis refuses, so a
-- further field is used. Any other error (permissions, a key of another type) leaves the decision uncounted: it has
-- been made already.
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

-- Cost → the number to add, precomputed as text for the commonest cost.
local increments = { '16777217' }

-- Requests are counted in their tenant's shard, not a second time at the home of global limits.
function account.count(shard, usage_key, now, number, endpoint, outcome, cost, count)
  if shard == H.keys.ALL then return end
  local field = stamp(shard, now) .. number .. endpoint .. outcome
  if cost < 1048576 then
    local added = not count and increments[cost] or cost * 16777216 + (count or 1)
    if not overflowed(protected_call('HINCRBY', usage_key, field, added)) then return end
  end
  add_large(usage_key, field, cost, count or 1)
end

-- Adds an item to a list, and returns its length. The decision has been made, so no error may stop it. While a cluster
-- moves the slot, a list that is not here is left alone: a second one would be in the way of the one that still arrives.
local function push(if_there, always, shard, key, item)
  local length = protected_call(if_there, key, item)
  if length == 0 and type(protected_call('EXISTS', shard, key)) == 'number' then
    length = protected_call(always, key, item)
  end
  return type(length) == 'number' and length or 0
end

function account.arrival(shard, who, subject, now, cost, outcome)
  if shard == H.keys.ALL then return end
  local key = H.keys.arrivals(shard)
  local item = format('%s %s %.0f %d %s', who, sub(sha1hex(subject), 1, 16), now, cost, outcome)
  local length = push('RPUSHX', 'RPUSH', shard, key, item)
  if length > ARRIVALS_KEPT then call('LTRIM', key, -ARRIVALS_KEPT, -1) end
end

function account.denial(shard, number, endpoint, now, id, reason, cost, retry, revision, subject)
  if shard == H.keys.ALL then return end
  local key = H.keys.denials(shard, number)
  local item = format('%.0f %s %s %s %d %.0f %d %s', now, endpoint, id, reason, cost, retry, revision, subject)
  local length = push('LPUSHX', 'LPUSH', shard, key, item)
  if length > DENIALS_KEPT + 28 then call('LTRIM', key, 0, DENIALS_KEPT - 1) end
  if length % 16 == 1 then call('PEXPIRE', key, DENIALS_TTL) end
end
