-- Global limits in a cluster: they count all tenants, so they have a home of their own, `hr:{all}`, with the plans of a
-- tenant named `*`. A request pays there first and then asks its tenant's shard; if that denies it, the home gets its
-- units back. The twin of headroom_edge/global_limits.py.
local ENDPOINTS_KEPT = 10000

local global_limits = {}
local endpoints, count = {}, 0 -- those that are known to have some; a shard tells of others

function global_limits.are_on(endpoint) return endpoints[endpoint] end

function global_limits.learn(endpoint)
  if count >= ENDPOINTS_KEPT then endpoints, count = {}, 0 end -- a variable may bring any name
  if not endpoints[endpoint] then endpoints[endpoint], count = true, count + 1 end
end

-- The home's decision. Without a limit there is none any more, and the next request asks its shard alone.
function global_limits.heard(check, home)
  if home.allowed and not home.failure and home.limit == "" and endpoints[check.endpoint] then
    endpoints[check.endpoint], count = nil, count - 1
  end
end

local function copy(decision)
  local found = {}
  for field, value in pairs(decision) do found[field] = value end
  return found
end

-- A decision from a block as it is now.
function global_limits.kept(decision)
  local found = copy(decision)
  found.rows = {}
  for i, row in ipairs(decision.rows) do found.rows[i] = { unpack(row) } end
  return found
end

function global_limits.refused(check, home)
  local found = copy(home)
  found.tenant = check.tenant
  return found
end

-- One decision of the tenant's shard and of the home, which allowed the request.
function global_limits.combined(own_part, home_part)
  local own, home = own_part.decision, home_part.decision
  local found = copy(own)
  if own.allowed and home.limit ~= "" and (own.limit == "" or home.remaining < own.remaining) then
    found.limit, found.quota, found.remaining, found.reset_us = home.limit, home.quota, home.remaining, home.reset_us
  end
  found.rows, found.policies = {}, nil
  for _, part in ipairs { own, home } do
    for _, row in ipairs(part.rows) do found.rows[#found.rows + 1] = row end
  end
  found.wait_us = math.max(own.wait_us, home.wait_us)
  if own.holder == "" then found.holder = home.holder end
  -- What a limit of the tenant denies is no matter of the home's failure mode.
  found.failure = own.failure or own.allowed and home.failure or nil
  found.parts = { own_part, home_part }
  return found
end

return global_limits
