-- nginx asks Redis about every request: `access_by_lua_block { require("headroom").guard() }`. docs/nginx.md explains
-- the variables and settings. What it does with a request is what headroom_edge/request_guard.py does.
--
-- reads   $headroom_tenant, $headroom_endpoint, $headroom_cost, $headroom_priority, $headroom_fail, $headroom_api_key,
--         $headroom_dim_<name>
-- writes  $headroom_caller, $headroom_key: the tenant and key that were let through
local callers = require "headroom.callers"
local checks = require "headroom.checks"
local chores = require "headroom.chores"
local clock = require "headroom.clock"
local credentials = require "headroom.credentials"
local denials = require "headroom.denials"
local failures = require "headroom.failures"
local global_limits = require "headroom.global_limits"
local headers = require "headroom.headers"
local problems = require "headroom.problems"
local settings = require "headroom.settings"
local store = require "headroom.store"

local HOLDS_KEPT = 10000
local WRONG_KIND = "it is a server of a cluster; write the store's URL as redis+cluster://host:port"

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

-- With a URL of the wrong kind no limit would ever be enforced, so nobody is let through.
local function is_wrong_kind(problem) return not settings.is_cluster and string.find(problem, "^MOVED ") end

-- The caller is not known, so no plan's failure mode applies.
local function without_caller(mode, cause)
  if is_wrong_kind(cause) then mode, cause = "closed", WRONG_KIND end
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
  local reply, problem = store.ask(checks.command(check), deadline)
  if reply == nil then return nil, problem end
  local decision = checks.decision(check, reply)
  if decision then return decision end
  return nil, type(reply) == "table" and reply.error or "the store's answer cannot be read"
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

local function without_store(var, check, problem)
  if is_wrong_kind(problem) then
    return failures.decide(check, "unavailable", WRONG_KIND, "closed", true)
  end
  return failures.decide(check, "unavailable", problem, fallback_of(var))
end

-- The decision of the tenant's shard, or of the home of global limits.
local function decide_here(var, check, deadline)
  local decision, problem, is_own = ask(check, deadline)
  if not decision then return without_store(var, check, problem) end
  if is_own then return decision end
  -- The home always knows the tenant `*`, unless it has no configuration.
  if decision.reason == "not_ready" or check.payer and decision.reason == "unknown_tenant" then
    return failures.decide(check, "not_ready", "the store has no configuration yet", fallback_of(var))
  end
  learn(check, decision)
  return decision
end

-- Gives back what parts of a decision were charged. If the store does not answer, it stays charged.
local function undo(parts)
  local commands = {}
  for _, part in ipairs(parts) do
    local check, decision = part.check, part.decision
    if decision.block then
      leases.put_back(decision)
    elseif not decision.failure and #decision.receipt > 0 then
      if decision.holder ~= "" then commands[#commands + 1] = checks.call("hr_release", check, decision.holder) end
      commands[#commands + 1] = checks.call("hr_refund", check, checks.receipt(decision))
    end
  end
  if #commands > 0 then store.ask_all(commands, clock.now() + settings.budget_s) end
end

-- Asks the home of global limits first, then the tenant's shard.
local function decide_with_home(var, check, deadline)
  local home_check = checks.home(check)
  local home = decide_here(var, home_check, deadline)
  -- A decision from a block is changed by the next request that spends one.
  home = home.block and global_limits.kept(home) or home
  global_limits.heard(check, home)
  if not home.allowed then
    if not home.failure then denials.count(check, home.limit, tonumber(check.cost) or 1) end
    return global_limits.refused(check, home)
  end
  local paid = checks.paid(check, home.holder)
  -- A home that does not answer must not use up the time of the tenant's own limits.
  if home.failure then deadline = clock.now() + settings.budget_s end
  local own = decide_here(var, paid, deadline)
  local part = { check = home_check, decision = home }
  if not own.allowed then undo { part } end
  return global_limits.combined({ check = paid, decision = own }, part)
end

local function decide(var, check, deadline)
  if global_limits.are_on(check.endpoint) then return decide_with_home(var, check, deadline) end
  local decision = decide_here(var, check, deadline)
  if decision.reason ~= "global" then return decision end
  -- Nothing was counted.
  global_limits.learn(check.endpoint)
  return decide_with_home(var, check, deadline)
end

local function parts_of(check, decision) return decision.parts or { { check = check, decision = decision } } end

-- A request by its connection and its number there. ngx.ctx would be lost in an internal redirect.
local function request_of(var) return var.connection .. ":" .. var.connection_requests end

local function hold(var, check, decision)
  if decision.holder == "" or holds_count >= HOLDS_KEPT then return end
  local releases = {}
  for _, part in ipairs(parts_of(check, decision)) do
    local holder = part.decision.holder
    if holder ~= "" then releases[#releases + 1] = { check = part.check, holder = holder } end
  end
  holds[request_of(var)], holds_count = releases, holds_count + 1
end

-- The caller does not wait that long, so the charge is refunded.
local function too_late(check, decision, fields)
  undo(parts_of(check, decision))
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
  local check, wrong = checks.new(var, tenant, found and found.counted_as)
  if not check then return refuse(wrong) end
  local decision = decide(var, check, deadline)
  local fields = headers.render(decision, settings.profile)
  if not decision.allowed then return refuse(problems.of(decision, settings.limits_url), fields) end
  if decision.wait_us > settings.max_wait_us then return too_late(check, decision, fields) end
  return let_through(var, check, decision, fields, found)
end

-- How the request ended, for limits that adapt to the service behind (results.py); nil: nothing can be learned, as from
-- other failures and from clients that have gone.
local CLIENT_CLOSED = 499
local OVERLOADED = { [429] = true, [503] = true, [504] = true }

local function result_of(status)
  if OVERLOADED[status] then return "drop" end
  return status >= 100 and status < 500 and status ~= CLIENT_CLOSED and "ok" or nil
end

-- For log_by_lua_block: releases the concurrency slot of a request that has ended. Without it, the slot expires.
function headroom.release()
  if holds_count == 0 then return end
  local request = request_of(ngx.var)
  local releases = holds[request]
  if not releases then return end
  holds[request], holds_count = nil, holds_count - 1
  local result = result_of(ngx.status)
  for _, release in ipairs(releases) do
    -- Without its result if it has to be repeated, because a later release would tell a longer latency.
    local late = checks.call("hr_release", release.check, release.holder)
    chores.release_soon(result and checks.call("hr_release", release.check, release.holder, result) or late, late)
  end
end

return headroom
