-- Leases: decides requests from a block that `hr_lease` granted, without asking the store for each. docs/leases.md has
-- the rules; this file keeps the client's part of them, for all workers together (headroom/blocks.lua).
--
-- A block ends by the monotonic clock, counted from before the call was sent. It is settled once: with the call for the
-- next block, by the sweep after its end, or when its worker ends. What cannot be settled in time is lost, never doubled.
local blocks = require "headroom.blocks"
local breaker = require "headroom.breaker"
local checks = require "headroom.checks"
local clock = require "headroom.clock"
local headers = require "headroom.headers"
local recent_cache = require "headroom.recent_cache"
local store = require "headroom.store"

local ceil, concat, format, max, min = math.ceil, table.concat, string.format, math.max, math.min

local LONGEST_MS, LONGEST_S = 100, 0.1
local FIRST, LEAST, MOST, GROWTH = 16, 8, 1000000, 4 -- requests of a block: the first, the least, the most, from one to the next
local MOST_COST = 1000000000
local EARLY = 0.7 -- of its length, after which the next block is asked for
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

-- What a block is shared by: tenant, endpoint, cost, and the values of the dimensions that the plan uses.
local function key_of(check, plan)
  local key, values, dims = "k" .. check.name, check.values, plan.dims
  for i = 1, #dims do key = key .. "\0" .. (values[dims[i]] or "\1") end
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

-- A copy of the grant's decision, which decision_from changes with every request.
local function changing(block)
  local decision, granted = {}, block.decision
  for field, value in pairs(granted) do decision[field] = value end
  decision.rows, decision.policies, decision.holder, decision.wait_us = {}, headers.policies(granted.rows), "", 0
  decision.unit = 1
  for i, row in ipairs(granted.rows) do
    decision.rows[i] = { unpack(row) }
    if row[1] == granted.limit and row[10] == "cost" then decision.unit = block.unit end
  end
  return decision
end

-- The decision of a request that was spent from a block: that of the grant, less what was spent since.
-- It is valid until the next request is spent: no table is made for each.
local function decision_from(block, left)
  local decision = block.changing
  if not decision then
    decision = changing(block)
    block.changing = decision
  end
  local granted, spent = block.decision, block.size - left
  local elapsed_us = (clock.now() - block.starts_s) * 1000000
  local rows, first = decision.rows, granted.rows
  for i = 1, #rows do
    local row, was = rows[i], first[i]
    row[5] = max(0, was[5] - spent * (was[10] == "cost" and block.unit or 1))
    row[6] = max(1, was[6] - elapsed_us)
  end
  decision.remaining = max(0, granted.remaining - spent * decision.unit)
  decision.reset_us = max(1, granted.reset_us - elapsed_us)
  return decision
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

-- How many requests the next block should have: what this one shows to be needed, and a quarter more; 0: none.
local function wanted(block, spent)
  if not block then return FIRST end
  local lasted_s = max(0.001, min(clock.now(), block.ends_s) - block.starts_s)
  local needed = spent * LONGEST_S / lasted_s
  if needed < LEAST then return 0 end
  return min(MOST, max(FIRST, min(GROWTH * block.size, ceil(1.25 * needed))))
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
    plans:put(check.name, plan)
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

-- Asks for a decision and a block of `want` requests. `numbers` settle the last one. Returns the decision, or nil and why.
local function ask(key, check, plan, want, numbers, deadline)
  local command = checks.call(
    "hr_lease", check, check.cost, format("%d", want), format("%d", min(MOST_COST, want * (plan and plan.unit or 1))),
    tostring(LONGEST_MS), numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], "ALL"
  )
  local starts_s = clock.now()
  local replies, problem, answer = store.ask(command, 1, deadline)
  if not replies then return nil, problem end
  local decision = take(key, check, starts_s, replies[1], answer)
  if decision then return decision end
  return nil, type(replies[1]) == "table" and replies[1].error or "the store's answer cannot be read"
end

local NOTHING = { "0", "0", "0", "0", "" }

-- There is no block.
local function ask_first(key, check, plan, deadline)
  local decision, problem = ask(key, check, plan, plan and FIRST or 0, NOTHING, deadline)
  if not decision then blocks.none(key) end
  return decision, problem
end

-- The block has ended or is used up, and the caller has sealed it.
local function ask_again(key, check, plan, block, spent, deadline)
  local decision, problem = ask(key, check, plan, wanted(block, spent), settlement(block, spent), deadline)
  if not decision then
    settle_later(return_command(block, spent), TRIES)
    ensure_sweep()
    blocks.none(key)
  end
  disown(block)
  return decision, problem
end

-- The block will soon end. The others go on spending it until the next one is there.
local function ask_early(key, check, plan, block, deadline)
  local decision, problem = ask(key, check, plan, wanted(block, block.size - block.left), NOTHING, deadline)
  if not decision then return nil, problem end
  local spent = blocks.seal(block)
  if spent then
    settle_later(return_command(block, spent), TRIES)
    disown(block)
  end
  return decision
end

local function ends_soon(block)
  local spent = block.size - block.left
  return spent >= LEAST and (4 * block.left < block.size or clock.now() > block.starts_s + EARLY * (block.ends_s - block.starts_s))
end

local function remember_denial(check, decision)
  local plan = plans:get(check.name)
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
  local plan = plans:get(check.name)
  local key = plan and key_of(check, plan) or "p" .. check.name
  local block, state = blocks.current(key)
  if block then
    if ends_soon(block) and blocks.begin_renewal(block) then
      local decision = ask_early(key, check, plan, block, deadline)
      if decision then return decision end
    end
    local left = is_current(block) and blocks.spend(block)
    if left then return decision_from(block, left), nil, true end
    local spent = blocks.seal(block)
    if spent then return ask_again(key, check, plan, block, spent, deadline) end
    if spent == nil then return nil end -- another worker is asking
    blocks.clear(key)
  end
  if plan then
    local decision = denied_before(check, key)
    if decision then return decision, nil, true end
  end
  if state or blocks.demand(key) < LEAST or not blocks.begin(key) then return nil end
  return ask_first(key, check, plan, deadline)
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
