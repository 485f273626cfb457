-- Finds the plan that applies to a call's arguments. Used by every function that touches state.

local MAX_COST = 1000000000
local MAX_ARGUMENTS = 64

-- The pairs of dimension and value from args[first] on, as a table.
function H.dimensions(args, first)
  local found = {}
  for i = first, #args, 2 do found[args[i]] = args[i + 1] end
  return found
end

local parsed, parsed_count = {}, 0

-- Costs repeat, so parsed texts are cached.
local function whole_cost(text)
  local cost = parsed[text]
  if cost or not text then return cost end
  cost = H.whole(text, 1, MAX_COST)
  if not cost then return nil end
  if parsed_count >= 1000 then parsed, parsed_count = {}, 0 end
  parsed[text], parsed_count = cost, parsed_count + 1
  return cost
end

-- The pairs that say that a global limit is paid (check.lua), and the caller's priority, come on top of the others.
local function room_for_more(args, first)
  local room = 0
  for i = first, #args do
    if args[i] == 'GLOBAL' or args[i] == 'priority' then room = min(room + 2, 4) end
  end
  return room
end

-- Parses the cost at args[at], and [ALL] and pairs after args[last]. Returns cost (or '*'), nil, index of the first
-- pair, whether ALL was given; or nil, error.
function H.arguments(args, at, last)
  local count = #args - last
  local words = count - count % 2 -- without ALL
  if count < 0 or words > MAX_ARGUMENTS and words > MAX_ARGUMENTS + room_for_more(args, last + 1) then
    return nil, H.fail('HRARGS', 'give tenant, endpoint, cost, then at most 32 pairs of dimension and value')
  end
  local rows = count % 2 == 1
  if rows and args[last + 1] ~= 'ALL' then
    local what = last == at and 'cost' or 'receipt'
    return nil, H.fail('HRARGS', 'after the ' .. what .. ' come pairs of dimension and value, or ALL and pairs')
  end
  local cost = args[at]
  if cost ~= '*' then
    cost = whole_cost(cost)
    if not cost then return nil, H.fail('HRCOST', 'cost must be a whole number from 1 to 1000000000') end
  end
  return cost, nil, last + (rows and 2 or 1), rows
end

-- As headroom_edge/plan/priority.py counts them: the most important first.
local PRIORITIES = { critical = 1, high = 2, normal = 3, sheddable = 4 }
local NORMAL = PRIORITIES.normal

-- The priority of a request, 1 to 4: the plan's, or a lower one that the caller asks for. Or nil, error.
-- Only plans with a pool need it; `dimensions` may then hold the caller's word.
function H.priority_of(plan, dimensions)
  local own, asked = plan.pr or NORMAL, dimensions and dimensions.priority
  if not asked then return own end
  local wanted = PRIORITIES[asked]
  if not wanted then
    return nil, H.fail('HRARGS', 'priority must be critical, high, normal or sheddable')
  end
  return wanted > own and wanted or own
end

local record_key, EVERYONE = H.keys.record, H.keys.EVERYONE
local crc_table

local function crc32(text)
  if not crc_table then
    local made = {}
    for i = 0, 255 do
      local c = i
      for _ = 1, 8 do
        c = bit.band(c, 1) == 1 and bit.bxor(bit.rshift(c, 1), 0xEDB88320) or bit.rshift(c, 1)
      end
      made[i] = c
    end
    crc_table = made
  end
  local c = -1
  for i = 1, #text do
    c = bit.bxor(bit.rshift(c, 8), crc_table[bit.band(bit.bxor(c, byte(text, i)), 255)])
  end
  return bit.bnot(c) % 4294967296
end

-- On a wrong shard the tenant would have a second budget, so this must be an error.
local function misplaced(shard, header, tenant)
  local right = H.keys.shard(crc32(tenant) % (header.shards or 64))
  if right == shard then return nil end
  return H.fail('HRSHARD', 'this tenant belongs to ' .. right .. ', not to ' .. sub(shard, 1, 40))
end

-- Returns shard, header, tenant number, plan, endpoint number, the endpoint's default cost; then the reason why there
-- is no plan, or an error; then when another plan is due, by an override that begins or ends. The shard differs from the caller's if another tenant stands in for unknown ones.
function H.locate(shard, tenant, endpoint, now)
  local header = H.plans.shards[shard] or H.plans.load(shard)
  if not header then return shard, nil, nil, nil, nil, nil, 'not_ready' end
  local entry = call('HGET', header.tenants_key, tenant)
  if not entry then return H.stranger(shard, header, tenant, endpoint, now) end
  local number, ref = sub(entry, 1, 5), sub(entry, 6)
  if ref == '!' then return shard, header, number, nil, nil, nil, 'suspended' end
  local plan, endpoint_number, default, ends = H.plans.find(shard, header, ref, endpoint, now)
  if plan then return shard, header, number, plan, endpoint_number, default, nil, nil, ends end
  -- A stale header may name a plan that is gone. If the header is current, the configuration is incomplete.
  if H.plans.is_current(shard, header) then return shard, nil, nil, nil, nil, nil, 'not_ready' end
  H.plans.drop(shard)
  return H.locate(shard, tenant, endpoint, now)
end

function H.stranger(shard, header, tenant, endpoint, now)
  if not H.plans.is_current(shard, header) then
    H.plans.drop(shard)
    header = H.plans.load(shard)
    if not header then return shard, nil, nil, nil, nil, nil, 'not_ready' end
  end
  local problem = misplaced(shard, header, tenant)
  if problem then return shard, header, nil, nil, nil, nil, nil, problem end
  local stands_in = header.unknown
  if stands_in and stands_in[2] ~= tenant then return H.locate(stands_in[1], stands_in[2], endpoint, now) end
  return shard, header, nil, nil, nil, nil, 'unknown_tenant'
end

-- The record key of each group of a plan. The simplest keys are built inline; they equal those of keys.record.
function H.records(shard, number, plan, dimensions)
  local groups, owner, found = plan.g, shard .. ':' .. number, {}
  for i = 1, #groups do
    local group = groups[i]
    local single, whose = group.single, group.a and EVERYONE or owner
    local value = single and dimensions[single]
    if not group.d then
      found[i] = whose .. group.scope
    elseif value and value ~= '' and #value <= 32 and not find(value, '[^%w%.@_%-]') then
      found[i] = whose .. group.path .. value
    else
      found[i] = record_key(whose, group, dimensions)
    end
  end
  return found
end
