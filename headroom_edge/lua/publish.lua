-- hr_publish: moves a shard to a new configuration, by compare-and-set.
-- KEYS[1]  the shard's prefix
-- ARGV     DELTA base token n field value... n field... n field value... n field...
--            (fields to set and to delete in the tenants' hash, then in the configuration's); only if the token is
--            exactly `base`
--          STAGE version t|c field value...      collects a whole shard beside the live one; reply: its length
--          FLIP version token tenants fields     makes the staged shard live if it is complete
-- reply    {status, current token}: applied; stale: a higher revision is live; base: the token is not `base`;
--          count: the staged shard is incomplete; lost: there is no token, and the counters were not restored for
--          this version (calendars.lua)
-- writes   S, S:t, S:c, S:s:<version>:*; the token last, so that a half-written shard is never ready. Also S:u and S:q, if
--          they do not exist. While a cluster moves the slot, STAGE is refused, the others if a key is not here (reach.lua)

local STAGE_TTL = 600000

-- Splits a token into the published part and the part that a bypass added.
local function split(token)
  if not token then return '', '' end
  local published, suffix = match(token, '^([^+]*)(.*)$')
  return published, suffix
end

local function revision_of(token) return tonumber_(match(token, '^(%d+)%.') or '') or -1 end

-- Fails, before anything is read or written, unless all that a publication touches is here.
local function prove(shard, ...)
  local keys = H.keys
  H.reach.prove(shard, keys.tenants(shard), keys.config(shard), keys.usage(shard), keys.touched(shard), ...)
end

local function finish(shard, token, suffix)
  H.account.open(shard)
  call('SET', shard, token .. suffix)
  H.plans.drop(shard)
  return { 'applied', token }
end

-- Runs `command` on `key` with the counted arguments at args[at]. Returns the position after them.
local function apply(command, key, args, at, width)
  local count = H.whole(args[at], 0, 100000)
  if not count then return nil end
  local last = at + count * width
  for from = at + 1, last, 1000 do
    call(command, key, unpack_(args, from, min(from + 999, last)))
  end
  return last + 1
end

local function counts_fit(args)
  local at = 4
  for _, width in ipairs({ 2, 1, 2, 1 }) do
    local count = H.whole(args[at], 0, 100000)
    if not count then return false end
    at = at + count * width + 1
  end
  return at == #args + 1
end

local function delta(shard, args)
  local base, token = args[2], args[3]
  if not counts_fit(args) then return H.fail('HRARGS', 'DELTA takes base, token and four counted lists') end
  prove(shard)
  local current, suffix = split(call('GET', shard))
  if current ~= base then return { 'base', current } end
  if revision_of(token) < revision_of(current) then return { 'stale', current } end
  local tenants, config = H.keys.tenants(shard), H.keys.config(shard)
  local at = apply('HSET', tenants, args, 4, 2)
  at = apply('HDEL', tenants, args, at, 1)
  at = apply('HSET', config, args, at, 2)
  apply('HDEL', config, args, at, 1)
  return finish(shard, token, suffix)
end

local function stage(shard, args)
  local version, part = args[2], args[3]
  if part ~= 't' and part ~= 'c' or #args < 5 or #args % 2 == 0 then
    return H.fail('HRARGS', 'STAGE takes version, t or c, then pairs of field and value')
  end
  H.reach.stand_still(shard)
  local key = H.keys.staged(shard, version, part)
  for from = 4, #args, 1000 do
    call('HSET', key, unpack_(args, from, min(from + 999, #args)))
  end
  call('PEXPIRE', key, STAGE_TTL)
  return call('HLEN', key)
end

-- The live hash is not deleted first: while the slot moves, nothing can be renamed to a key that is not here.
local function replace(staged, live)
  if call('EXISTS', staged) == 0 then
    call('UNLINK', live)
  else
    call('RENAME', staged, live)
    call('PERSIST', live)
  end
end

-- What a bypass adds to the token. Switches that were set while the shard was not ready count as well.
local function suffix_of(shard, current, suffix)
  if current == '' and call('EXISTS', H.keys.bypass(shard)) == 1 then return '+1' end
  return suffix
end

local function flip(shard, args)
  local version, token = args[2], args[3]
  local tenants, fields = H.whole(args[4], 0, 1e9), H.whole(args[5], 1, 1e9)
  if not token or not tenants or not fields then
    return H.fail('HRARGS', 'FLIP takes version, token, number of tenants and number of fields')
  end
  local staged_t, staged_c = H.keys.staged(shard, version, 't'), H.keys.staged(shard, version, 'c')
  prove(shard, staged_t, staged_c)
  local current, suffix = split(call('GET', shard))
  if revision_of(token) < revision_of(current) then return { 'stale', current } end
  if current == '' and not H.calendars.is_begun(shard, version) then return { 'lost', current } end
  if call('HLEN', staged_t) ~= tenants or call('HLEN', staged_c) ~= fields then return { 'count', current } end
  suffix = suffix_of(shard, current, suffix)
  replace(staged_t, H.keys.tenants(shard))
  replace(staged_c, H.keys.config(shard))
  -- If this mark is not here it goes by its TTL.
  protected_call('UNLINK', H.keys.staged(shard, version, 'q'))
  return finish(shard, token, suffix)
end

local ACTIONS = { DELTA = delta, STAGE = stage, FLIP = flip }

H.define('publish', {}, function(keys, args)
  local action = ACTIONS[args[1]]
  if not action then return H.fail('HRARGS', 'the first argument is DELTA, STAGE or FLIP') end
  return action(keys[1], args)
end)
