-- Leases: decides requests from a block that `hr_lease` granted, without asking the store for each. docs/leases.md has
-- the rules; this is the client's part of them, for all workers together (headroom/blocks.lua).
--
-- A block ends by the monotonic clock, counted from before the call was sent. It is settled once: with the call for the
-- next block, after its end, or when its worker ends (headroom/settlements.lua).
local blocks = require "headroom.blocks"
local checks = require "headroom.checks"
local clock = require "headroom.clock"
local denials = require "headroom.denials"
local headers = require "headroom.headers"
local recent_cache = require "headroom.recent_cache"
local settlements = require "headroom.settlements"
local store = require "headroom.store"

local ceil, format, max, min = math.ceil, string.format, math.max, math.min

local LONGEST_MS, LONGEST_S = 100, 0.1
local FIRST, LEAST, MOST = 16, 8, 1000000 -- requests of a block
local GROWTH, SPARE = 4, 1.25 -- from one block to the next at most; more than seems to be needed
local EARLY = 0.7 -- of its length, after which the next block is asked for
local MOST_COST = 1000000000
local PLANS_KEPT, KEY_BYTES = 16384, 500
local SHOWN_S, SHOWN = 60, 20

local leases = {}
local plans = recent_cache.new(PLANS_KEPT) -- tenant, endpoint and cost → { dims, unit: what one request costs, is_leased: sometimes }
local revisions = {} -- shard → the newest revision seen there
local endpoints = {} -- endpoint → when it had a lease last

-- What a block is shared by: tenant, endpoint, cost, and the values of the dimensions that the plan uses.
local function key_of(check, plan)
  local key, values, dims = "k" .. check.name, check.values, plan.dims
  for i = 1, #dims do
    local value = values[dims[i]]
    key = value and key .. "\0" .. #value .. ":" .. value or key .. "\0-"
  end
  return #key > KEY_BYTES and "h" .. ngx.md5(key) or key
end

-- What a denial holds for. A less important request may be denied while this one is not.
local function denial_key(check, key)
  return check.priority and key .. "\0" .. check.priority or key
end

-- A reply with another revision ends the leases of its shard.
local function learn_revision(check, revision)
  local shard = checks.shard_of(check.tenant)
  if revision > (revisions[shard] or 0) then revisions[shard] = revision end
end

local function is_current(block)
  return block.decision.revision >= (revisions[block.shard] or 0)
end

-- A copy of the grant's decision, which decision_from changes with every request.
local function changing(block)
  local decision, granted = {}, block.decision
  for field, value in pairs(granted) do decision[field] = value end
  decision.rows, decision.policies, decision.holder, decision.wait_us = {}, headers.policies(granted.rows), "", 0
  decision.unit, decision.block = 1, block
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

-- How many requests the next block should have: what this one shows to be needed, and a quarter more; 0: none.
local function wanted(block, spent)
  local lasted_s = max(0.001, min(clock.now(), block.ends_s) - block.starts_s)
  local needed = spent * LONGEST_S / lasted_s
  if needed < LEAST then return 0 end
  return min(MOST, max(FIRST, min(GROWTH * block.size, ceil(SPARE * needed))))
end

local function keep(key, check, starts_s, granted, unit, answer)
  local block, homeless = blocks.install(key, check, starts_s, granted, unit, answer)
  if block then
    settlements.own(block)
    endpoints[check.endpoint] = clock.now()
  else
    settlements.later(homeless, 0)
  end
end

local function is_lease(granted)
  return type(granted) == "table" and type(granted[3]) == "number" and type(granted[5]) == "table"
end

-- Learns from the reply of hr_lease and keeps its block. Returns the decision; nil if it is no such reply.
local function take(key, check, starts_s, reply, answer)
  local granted = type(reply) == "table" and reply[#reply]
  local decision = is_lease(granted) and checks.decision(check, reply, #reply - 1)
  if not decision then return nil end
  local unit = tonumber(check.cost) or tonumber(decision.receipt[3])
  local plan = unit and { dims = granted[5], unit = unit, is_leased = granted[3] >= 0 }
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
  local reply, problem, answer = store.ask(command, deadline)
  if reply == nil then return nil, problem end
  local decision = take(key, check, starts_s, reply, answer)
  if decision then return decision end
  return nil, type(reply) == "table" and reply.error or "the store's answer cannot be read"
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
  local decision, problem = ask(key, check, plan, wanted(block, spent), settlements.numbers(block, spent), deadline)
  if not decision then
    settlements.later(block, spent)
    blocks.none(key)
  end
  settlements.disown(block)
  return decision, problem
end

-- The block will soon end. The others go on spending it until the next one is there.
local function ask_early(key, check, plan, block, deadline)
  local decision, problem = ask(key, check, plan, wanted(block, block.size - block.left), NOTHING, deadline)
  if not decision then return nil, problem end
  local spent = blocks.seal(block)
  if spent then
    settlements.later(block, spent)
    settlements.disown(block)
  end
  return decision
end

local function ends_soon(block)
  if block.size - block.left < LEAST then return false end
  return 4 * block.left < block.size or clock.now() > block.starts_s + EARLY * (block.ends_s - block.starts_s)
end

-- The decision from a block or a remembered denial, or of a call that asks for a block. All nil: ask with hr_check.
function leases.decide(check, deadline)
  settlements.ensure_sweep()
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
    local decision = denials.again(check, denial_key(check, key))
    if decision then return decision, nil, true end
  end
  if state or blocks.demand(key) < LEAST or not blocks.begin(key) then return nil end
  return ask_first(key, check, plan, deadline)
end

-- Undoes a decision from a block.
function leases.put_back(decision) blocks.put_back(decision.block) end

-- What any reply of the store tells.
function leases.learn(check, decision)
  learn_revision(check, decision.revision)
  local plan = not decision.allowed and plans:get(check.name)
  -- Of limits that are never leased, such as slots, the next request may find room at once.
  if plan and plan.is_leased then denials.remember(denial_key(check, key_of(check, plan)), decision, plan.unit) end
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
