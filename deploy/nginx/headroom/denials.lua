-- Denials of a moment ago. An equal request is denied again without asking, and counted; the store is told how many.
local checks = require "headroom.checks"
local clock = require "headroom.clock"
local recent_cache = require "headroom.recent_cache"

local format, max, min = string.format, math.max, math.min

local SHORTEST_S, LONGEST_S = 0.02, 0.1
local KEPT, COUNTS_KEPT = 4096, 1000
local COUNT_MAX = 16777215

local denials = {}
local known = recent_cache.new(KEPT) -- key of a lease → { decision, since_s, ends_s, unit }
local counts, counts_size = {}, 0 -- not yet reported

-- `unit`: the cost of one such request.
function denials.remember(key, decision, unit)
  if decision.reason ~= "limit" or decision.retry_us < 0 then return end
  local now = clock.now()
  local lasts_s = min(max(decision.retry_us / 1000000, SHORTEST_S), LONGEST_S)
  known:put(key, { decision = decision, since_s = now, ends_s = now + lasts_s, unit = unit })
end

-- Counts one; false if there is no place to remember it.
function denials.count(check, limit, cost)
  local name = check.place .. "\0" .. limit
  local found = counts[name]
  if not found then
    if counts_size >= COUNTS_KEPT then return false end
    found = { tenant = check.tenant, endpoint = check.endpoint, limit = limit, count = 0, cost = 0 }
    counts[name], counts_size = found, counts_size + 1
  end
  found.count, found.cost = found.count + 1, found.cost + cost
  return true
end

-- The decision for an equal request; nil if none was denied a moment ago.
function denials.again(check, key)
  local denial, now = known:get(key), clock.now()
  if not denial or now >= denial.ends_s then return nil end
  -- A denial of a global limit is counted with the tenant, by who asked for it.
  if not check.payer and not denials.count(check, denial.decision.limit, denial.unit) then return nil end
  local decision, elapsed_us = {}, (now - denial.since_s) * 1000000
  for field, value in pairs(denial.decision) do decision[field] = value end
  decision.retry_us, decision.reset_us = max(1, decision.retry_us - elapsed_us), max(1, decision.reset_us - elapsed_us)
  return decision
end

-- Adds the reports to `commands`. Not repeated if no answer comes: the store may have counted them.
function denials.take_reports(commands)
  for _, one in pairs(counts) do
    local about = { tenant = one.tenant, endpoint = one.endpoint, subject = "", words = 0 }
    local number, cost = format("%d", min(one.count, COUNT_MAX)), format("%.0f", one.cost)
    commands[#commands + 1] = checks.call("hr_report", about, "d", number, cost, one.limit)
  end
  counts, counts_size = {}, 0
end

return denials
