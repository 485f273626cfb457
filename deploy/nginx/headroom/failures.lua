-- Decisions without the store, by each plan's failure mode as remembered from earlier replies. One table per worker.
-- `local` needs the limits' algorithms, which only the Python SDK has: here the default decides instead.
local clock = require "headroom.clock"
local recent_cache = require "headroom.recent_cache"
local settings = require "headroom.settings"

local MODES_KEPT, REPORTS_KEPT, LOG_EVERY_S = 16384, 10000, 5
local CLOSED_RETRY_US = 1000000 -- when the store returns is unknown; the breaker probes it again within a second
local NO_ROWS = {}

local failures = { degraded = 0 }
local modes = recent_cache.new(MODES_KEPT)
local reports, kinds = {}, 0
local logged_s, unlogged = -LOG_EVERY_S, 0

-- Remembers a reply's failure mode. On the hot path, so nothing is written unless it is new.
function failures.learn(place, mode)
  if modes:get(place) ~= mode then modes:put(place, mode) end
end

-- For the store, when it is back. Nobody's requests are those of global limits: they are counted with their tenant.
local function report(check, outcome)
  local key = check.place .. "\0" .. outcome
  local found = reports[key]
  if not found and kinds < REPORTS_KEPT then
    found = { tenant = check.tenant, endpoint = check.endpoint, outcome = outcome, count = 0, cost = 0 }
    reports[key], kinds = found, kinds + 1
  end
  if found then
    found.count, found.cost = found.count + 1, found.cost + (tonumber(check.cost) or 1)
  end
end

local function count(check, outcome, cause)
  failures.degraded, unlogged = failures.degraded + 1, unlogged + 1
  if not check.payer then
    report(check, outcome)
  elseif outcome == "c" then
    report(check.payer, outcome)
  end
  local now = clock.now()
  if now - logged_s < LOG_EVERY_S then return end
  local message = "headroom: degraded: %d decisions without the store at %s since the last message; latest: %s (%s)"
  local latest = outcome == "g" and "let through" or "refused"
  ngx.log(ngx.WARN, string.format(message, unlogged, settings.name, latest, cause))
  logged_s, unlogged = now, 0
end

-- `fallback`: the location's own mode, before the plan's is known; or whatever the plan says, if `is_certain`.
function failures.decide(check, reason, cause, fallback, is_certain)
  local mode = not is_certain and modes:get(check.place)
  if mode ~= "open" and mode ~= "closed" then mode = fallback end
  count(check, mode == "open" and "g" or "c", cause)
  return {
    allowed = mode == "open", reason = reason, limit = "", quota = 0, remaining = 0, reset_us = 0,
    retry_us = mode == "open" and 0 or CLOSED_RETRY_US, wait_us = 0, revision = 0, holder = "", rows = NO_ROWS,
    failure = mode, tenant = check.tenant,
  }
end

function failures.take_reports()
  local taken = reports
  reports, kinds = {}, 0
  return taken
end

function failures.put_back(key, report)
  local current = reports[key]
  if current then
    current.count, current.cost = current.count + report.count, current.cost + report.cost
  elseif kinds < REPORTS_KEPT then
    reports[key], kinds = report, kinds + 1
  end
end

return failures
