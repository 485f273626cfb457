-- nginx asks Redis about every request: `access_by_lua_block { require("headroom").guard() }`. docs/nginx.md explains
-- the variables and settings. What it does with a request is what headroom_edge/request_guard.py does.
--
-- reads   $headroom_tenant, $headroom_endpoint, $headroom_cost, $headroom_fail, $headroom_api_key, $headroom_dim_<name>
-- writes  $headroom_caller, $headroom_key: the tenant and key that were let through
local callers = require "headroom.callers"
local checks = require "headroom.checks"
local chores = require "headroom.chores"
local clock = require "headroom.clock"
local credentials = require "headroom.credentials"
local failures = require "headroom.failures"
local headers = require "headroom.headers"
local problems = require "headroom.problems"
local settings = require "headroom.settings"
local store = require "headroom.store"

local HOLDS_KEPT = 10000

local headroom = { VERSION = chores.version }
local holds, holds_count = {}, 0 -- slots of requests that have not ended, by request
local has_complained = false
local leases -- the module, if setup switched it on

function headroom.setup(given)
  settings.read(given)
  if settings.keys and not credentials.are_possible() then
    error("headroom: this nginx has no OpenSSL, which API keys need; use an nginx that has, or set keys = false.", 0)
  end
  leases = settings.leases and require "headroom.leases"
end

local function refuse(problem, fields)
  local answer = ngx.header
  if fields then headers.send(fields) end
  for name, value in pairs(problem.headers) do answer[name] = value end
  answer["Content-Type"], answer["Cache-Control"] = "application/problem+json", "no-store"
  answer["Content-Length"] = #problem.body
  ngx.status = problem.status
  ngx.print(problem.body)
  return ngx.exit(ngx.HTTP_OK)
end

-- The location's failure mode, for plans whose own is not known.
local function fallback_of(var)
  local mode = var.headroom_fail
  if not mode or mode == "" then return settings.fail end
  if mode == "open" or mode == "closed" then return mode end
  ngx.log(ngx.ERR, "headroom: $headroom_fail is '", mode, "'; set it to open or closed. Taken as closed.")
  return "closed"
end

-- The caller is not known, so no plan's failure mode applies.
local function without_caller(mode, cause)
  ngx.log(ngx.WARN, "headroom: the caller cannot be looked up: ", cause)
  if mode == "closed" then return refuse(problems.unavailable(), { ["Headroom-Degraded"] = "closed" }) end
  ngx.header["Headroom-Degraded"] = "open"
end

-- The decision, nil, and whether it was made without asking; nil and a text if the store gives none.
local function ask(check, deadline)
  if leases then
    local decision, problem, is_own = leases.decide(check, deadline)
    if decision or problem then return decision, problem, is_own end
  end
  local replies, problem = store.ask(checks.command(check), 1, deadline)
  if not replies then return nil, problem end
  local decision = checks.decision(check, replies[1])
  if decision then return decision end
  return nil, type(replies[1]) == "table" and replies[1].error or "the store's answer cannot be read"
end

local function learn(check, decision)
  chores.learn(check, decision)
  if leases then leases.learn(check, decision) end
  if decision.mode ~= "" then
    failures.learn(check.place, decision.mode)
  elseif decision.reason == "suspended" then
    -- A suspended tenant must not get in while the store is down.
    failures.learn(check.place, "closed")
  end
end

local function decide(var, check, deadline)
  local decision, problem, is_own = ask(check, deadline)
  if not decision then return failures.decide(check, "unavailable", problem, fallback_of(var)) end
  if is_own then return decision end
  if decision.reason == "not_ready" then
    return failures.decide(check, "not_ready", "the store has no configuration yet", fallback_of(var))
  end
  learn(check, decision)
  return decision
end

-- A request by its connection and its number there. ngx.ctx would be lost in an internal redirect.
local function request_of(var) return var.connection .. ":" .. var.connection_requests end

local function hold(var, check, decision)
  if decision.holder == "" or holds_count >= HOLDS_KEPT then return end
  holds[request_of(var)] = checks.call("hr_release", check, decision.holder)
  holds_count = holds_count + 1
end

-- The caller does not wait that long, so the charge is refunded.
local function too_late(check, decision, fields)
  local commands, count = checks.call("hr_refund", check, checks.receipt(decision)), 1
  if decision.holder ~= "" then
    commands, count = checks.call("hr_release", check, decision.holder) .. commands, 2
  end
  store.ask(commands, count, clock.now() + settings.budget_s)
  return refuse(problems.late(decision, settings.limits_url), fields)
end

local function tell(var, tenant, key_id)
  var.headroom_caller, var.headroom_key = tenant, key_id
end

-- nginx lets Lua write a variable only if the configuration declares it and uses it somewhere.
local function try_to_tell(var, tenant, key_id)
  if pcall(tell, var, tenant, key_id) or has_complained then return end
  has_complained = true
  ngx.log(
    ngx.ERR, "headroom: $headroom_caller and $headroom_key cannot be written, so an internal redirect is charged again; ",
    "declare them with map and pass them on with proxy_set_header, as in headroom-lua.conf."
  )
end

local function let_through(var, check, decision, fields, credential)
  headers.send(fields)
  try_to_tell(var, check.tenant, credential and credential.key_id or "")
  hold(var, check, decision)
  if decision.wait_us > 0 then ngx.sleep(decision.wait_us / 1000000) end
end

-- For access_by_lua_block.
function headroom.guard()
  local var = ngx.var
  -- After an internal redirect (index, error_page, try_files) the request has been charged already.
  if (var.headroom_caller or "") ~= "" then return end
  chores.ensure(var)
  local deadline = clock.now() + settings.budget_s
  local tenant, found, cause = callers.identify(var, deadline)
  if not tenant then
    if found then return refuse(found) end
    return without_caller(fallback_of(var), cause)
  end
  if found then chores.count_use(found.key_id) end
  local check = checks.new(var, tenant, found and found.counted_as)
  if not check then return refuse(problems.bad_cost(var.headroom_cost)) end
  local decision = decide(var, check, deadline)
  local fields = headers.render(decision, settings.profile)
  if not decision.allowed then return refuse(problems.of(decision, settings.limits_url), fields) end
  if decision.wait_us > settings.max_wait_us then return too_late(check, decision, fields) end
  return let_through(var, check, decision, fields, found)
end

-- For log_by_lua_block: releases the concurrency slot of a request that has ended. Without it, the slot expires.
function headroom.release()
  if holds_count == 0 then return end
  local request = request_of(ngx.var)
  local release = holds[request]
  if not release then return end
  holds[request], holds_count = nil, holds_count - 1
  chores.release_soon(release)
end

return headroom
