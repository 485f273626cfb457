-- Plans as the publisher wrote them, decoded and cached between calls.
-- Sets, plans, endpoint lists and calendars are named by a hash of their content, so the cache is never stale. Only
-- the small header of a shard (S:c main) depends on the token, which every check reads.
-- maxmemory does not count Lua memory, so the cache is emptied at 4,096 entries.
local plans = { shards = {}, count = 0 }
H.plans = plans

local MOST = 4096
local decoded = {}

local function forget()
  decoded, plans.shards, plans.count = {}, {}, 0
end

-- A field of S:c by its content's name, decoded and prepared once; nil if it does not exist.
local function fetch(shard, name, prepare)
  local value = decoded[name]
  if value then return value end
  local text = call('HGET', H.keys.config(shard), name)
  if not text then return nil end
  value = json_decode(text)
  if prepare then value = prepare(value, shard) end
  if not value then return nil end
  if plans.count >= MOST then forget() end
  plans.count = plans.count + 1
  decoded[name] = value
  return value
end

local function prepare_limit(limit, calendars)
  limit.kernel = H.kinds[limit.k]
  limit.decide = limit.kernel.decide
  limit.enforced = limit.m == 'e'
  if limit.kernel.prepare and limit.kernel.prepare(limit, calendars) == false then return false end
  limit.number, limit.id = limit.i, H.base36(limit.i)
  limit.generations = {}
  for i, past in ipairs(limit.past or {}) do
    local generation = past[2]
    generation.h, generation.T, generation.cm = past[1], past[3], past[4]
    local kernel = H.kinds[generation.k]
    generation.ready = not kernel.prepare or kernel.prepare(generation, calendars) ~= false
    limit.generations[i] = generation
  end
  return true
end

local function prepare_group(group, calendars)
  for _, limit in ipairs(group.l) do
    if not prepare_limit(limit, calendars) then return false end
  end
  group.ttl = format('%d', group.ttl)
  H.keys.prepare(group)
  H.record.prepare(group)
  return true
end

local function prepare_plan(plan, shard)
  local function calendars(id) return fetch(shard, 'k:' .. id) end
  for i, group in ipairs(plan.g) do
    if not prepare_group(group, calendars) then return nil end
    plan.needs_dimensions = plan.needs_dimensions or group.d ~= nil
    if group.d and not plan.sampled then plan.sampled = i end
    plan.calendars = plan.calendars or group.calendar
    group.tats, group.beside = 0, {}
    for _, limit in ipairs(group.l) do
      limit.group, limit.i = group, i
      if limit.P and not limit.x then group.tats = group.tats + 1 end
      if limit.fa and not limit.x then
        plan.scaled = plan.scaled or {}
        plan.scaled[#plan.scaled + 1] = limit
      end
      if limit.kernel.holders then plan.needs_dimensions, plan.holds = true, true end
      if limit.kernel.adapts then plan.adapts, group.adapts = true, true end
      plan.observers = plan.observers or not limit.enforced
      plan.carries = plan.carries or limit.x
      if limit.kernel.ring or limit.kernel.holders then
        plan.beside = true
        if not limit.x then group.beside[#group.beside + 1] = limit end
      end
    end
  end
  -- In a cluster: the numbers of the global limits that also apply, by name (check.lua).
  -- With chains, the caller's priority may be among the dimensions (locate.lua).
  plan.needs_dimensions = plan.needs_dimensions or plan.G ~= nil or plan.ch ~= nil
  H.chains.prepare(plan)
  H.leases.prepare(plan)
  plan.reads_more = plan.calendars or plan.scaled
  local is_simple = #plan.g > 0 and not (plan.observers or plan.carries or plan.beside)
  plan.simple, plan.shares = is_simple and not plan.chains, is_simple and plan.chains ~= nil
  return plan
end

-- The bypass switches; nil if there are none. A token with a `+` has had some. Without it, no answer from a slot that a
-- cluster moves is as good as none.
local function switches_of(shard, token)
  local read = find(token, '+', 1, true) and call or protected_call
  local found = read('MGET', shard, H.keys.bypass(shard))
  local switches = not found.err and found[2] and json_decode(found[2])
  return switches and #switches > 0 and switches or nil
end

-- The shard's header; nil while the shard is not ready.
function plans.load(shard)
  local keys = H.keys
  H.reach.prove(shard, keys.tenants(shard), keys.config(shard))
  local token = call('GET', shard)
  local main = token and call('HGET', keys.config(shard), 'main')
  if not main then return nil end
  local header = json_decode(main)
  header.endpoints = fetch(shard, 'e:' .. header.endpoints)
  if not header.endpoints then return nil end
  header.bypass = switches_of(shard, token)
  header.token, header.found = token, {}
  header.tenants_key, header.usage_key = keys.tenants(shard), keys.usage(shard)
  header.touched_key, header.factors_key = keys.touched(shard), keys.factors(shard)
  plans.shards[shard] = header
  return header
end

-- Whether the shard still has this header's token. Fails if the token, the tenants, the configuration or the counters
-- are not on this node: then it is not known whether they lack something.
function plans.is_current(shard, header)
  local keys = H.keys
  return call('MGET', shard, header.tenants_key, keys.config(shard), header.usage_key)[1] == header.token
end

function plans.drop(shard)
  plans.shards[shard] = nil
end

-- The id of the set that a tenant's entry names now, and when it names another one (nil: not planned).
local function set_id(header, ref, now)
  local id = header.tiers[ref]
  if id then return id end
  if byte(ref, 1) ~= 123 then return nil end -- not '{': a tier that this shard does not know
  local entry = json_decode(ref)
  if entry.s then return entry.s end
  for i = #entry.x, 1, -1 do
    if entry.x[i][1] <= now then return entry.x[i][2], entry.x[i + 1] and entry.x[i + 1][1] end
  end
  return nil
end

local function find_plan(shard, header, ref, name, now)
  local id, ends = set_id(header, ref, now)
  local set = id and fetch(shard, 's:' .. id)
  local plan_id = set and (set[name] or set['*'])
  local plan = plan_id and fetch(shard, 'p:' .. plan_id, prepare_plan)
  if not plan then return nil end
  plan.id, plan.mark = plan_id, sub(plan_id, 1, 8)
  -- Only a tier's name refers to the same plans as long as the header does not change.
  if header.tiers[ref] then
    header.found[ref] = header.found[ref] or {}
    header.found[ref][name] = plan
  end
  return plan, ends
end

local UNREGISTERED = { '000', 1 }

-- Plan, endpoint number, default cost, and when another plan is due; nil if the configuration is incomplete.
function plans.find(shard, header, ref, endpoint, now)
  local known = header.endpoints[endpoint]
  if not known then endpoint, known = '*', UNREGISTERED end
  local found = header.found[ref]
  local plan, ends = found and found[endpoint], nil
  if not plan then plan, ends = find_plan(shard, header, ref, endpoint, now) end
  return plan, known[1], known[2], ends
end
