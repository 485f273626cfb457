-- From a call's arguments to the plan that holds for them. Used by every function that touches state.

local MAX_COST = 1000000000
local MAX_ARGUMENTS = 64

-- {dimension, value, ...} from args[first] on, as a table; nil if they are not pairs.
function H.dimensions(args, first)
  local found = {}
  for i = first, #args, 2 do found[args[i]] = args[i + 1] end
  return found
end

-- Reads [cost] [ALL] and pairs: cost (nil: the endpoint's own), first pair, ALL or not; or an error.
function H.arguments(args, first)
  local count = #args - first
  if count < 0 or count > MAX_ARGUMENTS then
    return nil, H.fail('HRARGS', 'give tenant, endpoint, cost, then at most 32 pairs of dimension and value')
  end
  local rows = count % 2 == 1
  if rows and args[first + 1] ~= 'ALL' then
    return nil, H.fail('HRARGS', 'after the cost come pairs of dimension and value, or ALL and pairs')
  end
  local cost = args[first]
  if cost ~= '*' then
    cost = H.whole(cost, 1, MAX_COST)
    if not cost then return nil, H.fail('HRCOST', 'cost must be a whole number from 1 to 1000000000') end
  end
  return cost, nil, first + (rows and 2 or 1), rows
end

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

-- A wrong shard would be a fresh budget, so it is an error, never a default.
local function misplaced(shard, header, tenant)
  local right = 'hr:{' .. format('%d', crc32(tenant) % (header.shards or 64)) .. '}'
  if right == shard then return nil end
  return H.fail('HRSHARD', 'this tenant belongs to ' .. right .. ', not to ' .. sub(shard, 1, 40))
end

-- Where a tenant's limits are: {shard, header, number, plan, endpoint, default}; or nil and a reason,
-- or nil, nil and an error. `fresh` makes the cached header be read again.
function H.locate(shard, tenant, endpoint, now)
  local header = H.plans.shards[shard] or H.plans.load(shard)
  if not header then return nil, 'not_ready' end
  local entry = call('HGET', header.tenants_key, tenant)
  if not entry then
    if call('GET', shard) ~= header.token then
      H.plans.drop(shard)
      header = H.plans.load(shard)
      if not header then return nil, 'not_ready' end
    end
    local stands_in = header.unknown
    if stands_in and stands_in[2] ~= tenant then return H.locate(stands_in[1], stands_in[2], endpoint, now) end
    return nil, 'unknown_tenant', misplaced(shard, header, tenant)
  end
  local ref = sub(entry, 6)
  if ref == '!' then return { header = header, shard = shard, number = sub(entry, 1, 5) }, 'suspended' end
  local plan, number, default = H.plans.find(shard, header, ref, endpoint, now)
  if not plan then
    if call('GET', shard) == header.token then return nil, 'not_ready' end
    H.plans.drop(shard)
    return H.locate(shard, tenant, endpoint, now)
  end
  return { shard = shard, header = header, number = sub(entry, 1, 5), plan = plan, endpoint = number, default = default }
end

-- The record's key of each group of a plan.
function H.records(place, dimensions)
  local found = {}
  for i, group in ipairs(place.plan.g) do
    local owner = group.a and H.keys.EVERYONE or H.keys.owner(place.shard, place.number)
    found[i] = H.keys.record(owner, group.scope, group.d and H.keys.subject(group, dimensions) or '')
  end
  return found
end
