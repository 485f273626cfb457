-- What a worker exchanges with the store outside of requests, once a second: a heartbeat, decisions that were made
-- without the store, slots to release, and uses of API keys.
local checks = require "headroom.checks"
local clock = require "headroom.clock"
local denials = require "headroom.denials"
local failures = require "headroom.failures"
local problems = require "headroom.problems"
local resp = require "headroom.resp"
local settings = require "headroom.settings"
local store = require "headroom.store"

local command, floor, format = resp.command, math.floor, string.format

local ALL = "hr:{all}"
local TICK_S, PATIENCE_S = 1, 1
local JITTER, DEGRADED_S = 0.2, 60
local USES_S, USES_KEPT, HOUR_S = 10, 10000, 3600
local RELEASES_KEPT = 1000
local COUNT_MAX, COST_MAX = 16777215, 549755813887
local HOST_BYTES = 64

local chores = { version = "0.2.0" }
local is_started, is_releasing = false, false
local releases = {}
local uses, uses_count, uses_s, uses_hour = {}, 0, 0, 0 -- by key; all in the hour of the first one
local enforcer, host, next_heartbeat_s = nil, "", 0
local degraded_seen, degraded_s = 0, -DEGRADED_S
local latest -- the newest decision of the store: shard, revision, when

-- The commands that are due, and for each what to do if the store does not answer.
local function due(list)
  local commands, undone = {}, {}
  for _, add in ipairs(list) do add(commands, undone) end
  return commands, undone
end

local function exchange(commands, undone)
  if #commands == 0 then return end
  local replies = store.attend(commands, PATIENCE_S)
  for i, undo in pairs(undone) do
    if not replies[i] then undo() end
  end
end

local function about_leases()
  local found = require("headroom.leases").about()
  return format('{"ms":%d,"endpoints":%s,"more":%d}', found.ms, problems.json_list(found.endpoints), found.more)
end

local function about(now)
  if failures.degraded ~= degraded_seen then degraded_seen, degraded_s = failures.degraded, now end
  local text = format(
    '{"host":%s,"pid":%d,"version":"%s","degraded":%d', problems.json(host:sub(1, HOST_BYTES)), ngx.worker.pid(),
    chores.version, now - degraded_s < DEGRADED_S and failures.degraded or 0
  )
  if latest then
    text = text .. format(',"shard":%d,"revision":%d,"decided_s":%d', latest.shard, latest.revision, floor(now - latest.s))
  end
  if settings.leases then text = text .. ',"leases":' .. about_leases() end
  return text .. "}"
end

local function add_heartbeat(commands)
  local now = clock.now()
  if now < next_heartbeat_s then return end
  next_heartbeat_s = now + settings.heartbeat_s * (1 - JITTER + 2 * JITTER * math.random())
  commands[#commands + 1] = command { "FCALL", "hr_heartbeat", "1", ALL, enforcer, about(now) }
end

local function add_reports(commands, undone)
  for key, report in pairs(failures.take_reports()) do
    local shard = "hr:{" .. checks.shard_of(report.tenant) .. "}"
    local count, cost = math.min(report.count, COUNT_MAX), math.min(report.cost, COST_MAX)
    local words = { "FCALL", "hr_report", "1", shard, report.tenant, report.endpoint, report.outcome }
    words[8], words[9] = format("%.0f", count), format("%.0f", cost)
    commands[#commands + 1] = command(words)
    undone[#commands] = function() failures.put_back(key, report) end
  end
end

local function add_releases(commands, undone)
  local taken = releases
  releases = {}
  for _, release in ipairs(taken) do
    commands[#commands + 1] = release.now
    undone[#commands] = function() chores.release_later(release.late) end
  end
end

-- Not repeated if no answer comes: the store may have counted them already.
local function add_uses(commands)
  local now = clock.now()
  if uses_count == 0 or now < uses_s then return end
  for key_id, count in pairs(uses) do
    commands[#commands + 1] = command { "HINCRBY", ALL .. ":ku", key_id .. " " .. uses_hour, tostring(count) }
  end
  uses, uses_count, uses_s = {}, 0, now + USES_S
end

local function leave()
  local commands, undone = due { add_releases, add_reports, denials.take_reports }
  commands[#commands + 1] = command { "FCALL", "hr_heartbeat", "1", ALL, enforcer, "" }
  exchange(commands, undone)
end

local function tick(is_premature)
  if is_premature then return leave() end
  if not store.is_well() then return end
  exchange(due { add_heartbeat, add_releases, add_reports, denials.take_reports, add_uses })
end

-- Called with the first request of a worker.
function chores.ensure(var)
  if is_started then return end
  is_started, host = true, var.hostname or ""
  math.randomseed(ngx.worker.pid() + ngx.now() * 1000)
  enforcer = ngx.md5(host .. tostring({}) .. math.random() .. ngx.now()):sub(1, 16) .. "-" .. ngx.worker.pid()
  ngx.timer.at(0, tick)
  ngx.timer.every(TICK_S, tick)
end

function chores.learn(check, decision)
  if decision.revision == 0 or check.payer then return end
  latest = latest or {}
  latest.shard, latest.revision, latest.s = checks.shard_of(check.tenant), decision.revision, clock.now()
end

function chores.count_use(key_id)
  local count = uses[key_id]
  if count then
    uses[key_id] = count + 1
  elseif uses_count < USES_KEPT then
    if uses_count == 0 then uses_hour = floor(ngx.time() / HOUR_S) end
    uses[key_id], uses_count = 1, uses_count + 1
  end
end

local function release_now(is_premature)
  is_releasing = false
  if is_premature or store.is_well() then exchange(due { add_releases }) end
end

local function keep(now, late)
  if #releases >= RELEASES_KEPT then table.remove(releases, 1) end
  releases[#releases + 1] = { now = now, late = late }
end

function chores.release_later(release) keep(release, release) end

-- At once, but not in this phase of the request: it may not wait. One timer for all that end in this moment.
-- `late` is what to send if this has to be repeated.
function chores.release_soon(release, late)
  keep(release, late)
  if not is_releasing then is_releasing = ngx.timer.at(0, release_now) and true or false end
end

return chores
