-- Leases: decides requests from a block that `hr_lease` granted, without asking the store for each. docs/leases.md has
-- the rules; this file keeps the client's part of them, for all workers together (headroom/blocks.lua).
--
-- A block ends by the monotonic clock, counted from before the call was sent. It is settled once: with the call for the
-- next block, by the sweep after its end, or when its worker ends. What cannot be settled in time is lost, never doubled.
local blocks = require "headroom.blocks"
local breaker = require "headroom.breaker"
local checks = require "headroom.checks"
local clock = require "headroom.clock"
local recent_cache = require "headroom.recent_cache"
local store = require "headroom.store"

local ceil, concat, format, max, min = math.ceil, table.concat, string.format, math.max, math.min

local LONGEST_MS, LONGEST_S = 100, 0.1
local FIRST, LEAST, MOST = 16, 8, 1000000 -- requests of a block: the first one, worth asking for, ever asked for
local LEAST_DENIAL_S = 0.02
local SWEEP_S, PATIENCE_S, TRIES = 0.1, 1, 60
local PLANS_KEPT, DENIALS_KEPT, OWN_KEPT, LATE_KEPT, KEY_BYTES = 16384, 4096, 10000, 1000, 500
local SHOWN_S, SHOWN = 60, 20

local leases = {}
local plans = recent_cache.new(PLANS_KEPT) -- place and cost → { dims, unit }
local denials = recent_cache.new(DENIALS_KEPT) -- key → { decision, since, until }
local denied, denied_count = {}, 0 -- not yet reported
local revisions = {} -- tenant's shard → the newest revision seen there
local own, own_count = {}, 0 -- blocks that this worker has got, by id
local late = {} -- settlements to repeat: { command, tries }
local endpoints = {} -- endpoint → when it had a lease last
local is_sweeping, has_adopted = false, false

local function plan_name(check) return check.place .. "\0" .. check.cost end

-- What a block is shared by: tenant, endpoint, cost, and the values of the dimensions that the plan uses.
local function key_of(check, plan)
  local parts = { "k", check.place, check.cost }
  for i, name in ipairs(plan.dims) do parts[i + 3] = check.values[name] or "\1" end
  local key = concat(parts, "\0")
  return #key > KEY_BYTES and "h" .. ngx.md5(key) or key
end

-- A reply with another revision ends the leases of its shard.
local function learn_revision(check, revision)
  local shard = checks.shard_of(check.tenant)
  if revision > (revisions[shard] or 0) then revisions[shard] = revision end
end

local function is_current(block)
  return block.decision.revision >= (revisions[checks.shard_of(block.check.tenant)] or 0)
end

-- The decision of a request that was spent from a block: that of the grant, less what was spent since.
local function decision_from(block, left)
  local granted, spent = block.decision, block.size - left
  local elapsed_us = max(0, clock.now() - block.starts_s) * 1000000
  local rows = {}
  local function reduced(remaining, unit) return max(0, remaining - spent * (unit == "cost" and block.unit or 1)) end
  local binding = "requests"
  for i, row in ipairs(granted.rows) do
    rows[i] = { row[1], 1, row[3], row[4], reduced(row[5], row[10]), max(1, row[6] - elapsed_us), 0, 0, row[9], row[10], row[11], row[12] }
    if row[1] == granted.limit then binding = row[10] end
  end
  return {
    allowed = true, reason = "ok", limit = granted.limit, quota = granted.quota, remaining = reduced(granted.remaining, binding),
    reset_us = max(1, granted.reset_us - elapsed_us), retry_us = 0, wait_us = 0, revision = granted.revision, holder = "",
    mode = granted.mode, rows = rows, tenant = granted.tenant,
  }
end

-- The numbers of a settlement, as hr_lease and hr_return take them.
local function settlement(block, spent)
  local cost = spent * block.unit
  local numbers = { spent, cost, block.calls - spent, block.cost - cost }
  for i = 1, 4 do numbers[i] = format("%d", numbers[i]) end
  numbers[5] = block.receipt
  return numbers
end

local function return_command(block, spent)
  return checks.call("hr_return", block.check, unpack(settlement(block, spent)))
end

-- A lost reply may have settled it: the store settles a receipt once, so the same numbers may be sent again.
local function settle_later(command, tries)
  if #late < LATE_KEPT and tries > 0 then late[#late + 1] = { command = command, tries = tries } end
end

local function disown(block)
  if own[block.id] then own[block.id], own_count = nil, own_count - 1 end
  blocks.forget(block)
end

-- How many requests the next block should have; 0: none.
local function wanted(block, spent)
  if not block then return FIRST end
  if spent < LEAST then return 0 end
  local lasted_s = max(0.001, min(clock.now(), block.ends_s) - block.starts_s)
  if spent == block.size then return min(MOST, max(2 * spent, ceil(spent * LONGEST_S / lasted_s))) end
  return max(FIRST, ceil(1.25 * spent))
end

local ensure_sweep

local function keep(key, check, starts_s, granted, unit, answer)
  local block, homeless = blocks.install(key, check, starts_s, granted, unit, answer)
  if block and own_count < OWN_KEPT then
    own[block.id], own_count = block, own_count + 1
    endpoints[check.endpoint] = clock.now()
    ensure_sweep()
  elseif homeless then
    settle_later(return_command(homeless, 0), TRIES)
    ensure_sweep()
  end
end

local function is_lease(granted)
  return type(granted) == "table" and type(granted[1]) == "number" and type(granted[3]) == "number" and type(granted[5]) == "table"
end

-- Learns from the reply of hr_lease and keeps its block. Returns the decision; nil if it is no such reply.
local function take(key, check, starts_s, reply, answer)
  local granted = type(reply) == "table" and reply[#reply]
  local decision = is_lease(granted) and checks.decision(check, reply, #reply - 1)
  if not decision then return nil end
  local unit = tonumber(check.cost) or tonumber(decision.receipt[3])
  local plan = unit and { dims = granted[5], unit = unit }
  if plan then
    plans:put(plan_name(check), plan)
    -- The plan may use other dimensions than before; its block belongs to the key of now.
    local owner = key_of(check, plan)
    if owner ~= key then blocks.none(key) end
    key = owner
  end
  learn_revision(check, decision.revision)
  if plan and granted[3] > 0 then
    keep(key, check, starts_s, granted, unit, answer)
  else
    blocks.none(key)
  end
  return decision
end

-- Asks for a decision and a block, and settles the last one. Returns as store.ask does, the decision instead of replies.
local function ask(key, check, plan, block, spent, deadline)
  local want = plan and wanted(block, spent) or 0
  local numbers = block and settlement(block, spent) or { "0", "0", "0", "0", "" }
  local unit = plan and plan.unit or 1
  local command = checks.call(
    "hr_lease", check, check.cost, format("%d", want), format("%d", min(1000000000, want * unit)), tostring(LONGEST_MS),
    numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], "ALL"
  )
  local starts_s = clock.now()
  local replies, problem, answer = store.ask(command, 1, deadline)
  if block then
    if not replies then
      settle_later(return_command(block, spent), TRIES)
      ensure_sweep()
    end
    disown(block)
  end
  if not replies then
    blocks.none(key)
    return nil, problem
  end
  local decision = take(key, check, starts_s, replies[1], answer)
  if decision then return decision end
  blocks.none(key)
  return nil, type(replies[1]) == "table" and replies[1].error or "the store's answer cannot be read"
end

local function remember_denial(check, decision)
  local plan = plans:get(plan_name(check))
  if not plan or decision.reason ~= "limit" or decision.retry_us < 0 then return end
  local now = clock.now()
  local lasts_s = min(max(decision.retry_us / 1000000, LEAST_DENIAL_S), LONGEST_S)
  denials:put(key_of(check, plan), { decision = decision, since = now, ends_s = now + lasts_s, unit = plan.unit })
end

-- The decision of an equal request that was denied a moment ago; counted, to be reported.
local function denied_before(check, key)
  local denial, now = denials:get(key), clock.now()
  if not denial or now >= denial.ends_s then return nil end
  local was = denial.decision
  local name = check.place .. "\0" .. was.limit
  local count = denied[name]
  if not count then
    if denied_count >= LATE_KEPT then return nil end
    count = { tenant = check.tenant, endpoint = check.endpoint, limit = was.limit, count = 0, cost = 0 }
    denied[name], denied_count = count, denied_count + 1
    ensure_sweep()
  end
  count.count, count.cost = count.count + 1, count.cost + denial.unit
  local elapsed_us = (now - denial.since) * 1000000
  local copy = {}
  for field, value in pairs(was) do copy[field] = value end
  copy.retry_us, copy.reset_us = max(1, was.retry_us - elapsed_us), max(1, was.reset_us - elapsed_us)
  return copy
end

-- The decision from a block or a remembered denial, or of a call that asks for a block. All nil: ask with hr_check.
function leases.decide(check, deadline)
  local plan = plans:get(plan_name(check))
  local key = plan and key_of(check, plan) or "p" .. plan_name(check)
  local block, state = blocks.current(key)
  if block then
    local left = is_current(block) and blocks.spend(block)
    if left then return decision_from(block, left), nil, true end
    local spent = blocks.seal(block)
    if spent then return ask(key, check, plan, block, spent, deadline) end
    return nil -- another worker is asking
  end
  if plan then
    local decision = denied_before(check, key)
    if decision then return decision, nil, true end
  end
  if state or blocks.demand(key) < LEAST or not blocks.begin(key) then return nil end
  return ask(key, check, plan, nil, nil, deadline)
end

-- What any reply of the store tells.
function leases.learn(check, decision)
  learn_revision(check, decision.revision)
  if not decision.allowed then remember_denial(check, decision) end
end

local function take_denials(commands)
  for _, one in pairs(denied) do
    local words = { "d", format("%d", one.count), format("%d", one.cost), one.limit }
    commands[#commands + 1] = checks.call("hr_report", { tenant = one.tenant, endpoint = one.endpoint, subject = "", words = 0 }, unpack(words))
  end
  denied, denied_count = {}, 0
end

-- The settlements that are due: of own blocks that have ended (or all of them), and those to repeat.
local function take_settlements(commands, tries, ends_all)
  local now = clock.now()
  for _, block in pairs(own) do
    if ends_all or now >= block.ends_s then
      local spent = blocks.seal(block)
      if spent then
        commands[#commands + 1] = return_command(block, spent)
        tries[#commands] = TRIES
      end
      disown(block)
    end
  end
  for _, one in ipairs(late) do
    commands[#commands + 1] = one.command
    tries[#commands] = one.tries
  end
  late = {}
end

local function adopt()
  if has_adopted then return end
  has_adopted = true
  for _, block in ipairs(blocks.orphans(1024)) do own[block.id], own_count = block, own_count + 1 end
end

local function sweep(is_premature)
  -- While the breaker is open, a request probes the store.
  if breaker.state ~= "closed" and not is_premature then return end
  adopt()
  local commands, tries = {}, {}
  take_denials(commands)
  take_settlements(commands, tries, is_premature)
  if #commands == 0 then return end
  if not store.exchange(concat(commands), #commands, clock.now() + PATIENCE_S) then
    for i, left in pairs(tries) do settle_later(commands[i], left - 1) end
  end
end

function ensure_sweep()
  if is_sweeping then return end
  is_sweeping = true
  ngx.timer.every(SWEEP_S, sweep)
end

-- For the heartbeat: the endpoints that had a lease within a minute.
function leases.about()
  local names, now = {}, clock.now()
  for name, used_s in pairs(endpoints) do
    if now - used_s > SHOWN_S then
      endpoints[name] = nil
    else
      names[#names + 1] = name
    end
  end
  table.sort(names)
  local more = max(0, #names - SHOWN)
  return { ms = LONGEST_MS, endpoints = { unpack(names, 1, SHOWN) }, more = more }
end

return leases
