-- Settles blocks: says what was spent, and gives back the rest. Each block once, by the worker that sealed it.
-- A lost reply may have settled it; the store settles a receipt once, so the same numbers are sent again.
local blocks = require "headroom.blocks"
local breaker = require "headroom.breaker"
local checks = require "headroom.checks"
local clock = require "headroom.clock"
local denials = require "headroom.denials"
local store = require "headroom.store"

local concat, format = table.concat, string.format

local SWEEP_S, PATIENCE_S, PAUSE_S, ADOPT_S = 0.1, 1, 1, 10
local REPEATED_S = 100 -- the store forgets receipts after two minutes
local OWN_KEPT, LATE_KEPT, ORPHANS = 10000, 1000, 1024

local settlements = {}
local own, own_count = {}, 0 -- blocks that this worker has got, by id
local late = {} -- { command, until_s }
local next_s, adopt_s = 0, 0
local is_sweeping = false

-- Calls and cost spent, calls and cost back, receipt: as hr_lease and hr_return take them.
function settlements.numbers(block, spent)
  local cost = spent * block.unit
  return {
    format("%d", spent), format("%d", cost), format("%d", block.calls - spent), format("%d", block.cost - cost),
    block.receipt,
  }
end

local function send_later(command, until_s)
  if #late < LATE_KEPT and clock.now() < until_s then late[#late + 1] = { command = command, until_s = until_s } end
end

local function command_of(block, spent)
  return checks.call("hr_return", block.check, unpack(settlements.numbers(block, spent)))
end

-- The caller has sealed the block.
function settlements.later(block, spent) send_later(command_of(block, spent), clock.now() + REPEATED_S) end

function settlements.own(block)
  if own_count < OWN_KEPT then own[block.id], own_count = block, own_count + 1 end
end

function settlements.disown(block)
  if own[block.id] then own[block.id], own_count = nil, own_count - 1 end
  blocks.forget(block)
end

-- Seals own blocks that have ended, or all of them.
local function seal_own(are_all)
  local now = clock.now()
  for _, block in pairs(own) do
    if are_all or now >= block.ends_s then
      local spent = blocks.seal(block)
      if spent then settlements.later(block, spent) end
      settlements.disown(block)
    end
  end
end

-- Takes over the blocks of workers that were killed.
local function adopt(now)
  if now < adopt_s then return end
  adopt_s = now + ADOPT_S
  for _, block in ipairs(blocks.orphans(ORPHANS)) do settlements.own(block) end
end

local function sweep(is_ending)
  local now = clock.now()
  -- While the breaker is open, a request probes the store.
  if not is_ending and (breaker.state ~= "closed" or now < next_s) then return end
  adopt(now)
  seal_own(is_ending)
  local taken, commands = late, {}
  late = {}
  for i = 1, #taken do commands[i] = taken[i].command end
  denials.take_reports(commands)
  if #commands == 0 or store.exchange(concat(commands), #commands, now + PATIENCE_S) then return end
  next_s = clock.now() + PAUSE_S
  for _, one in ipairs(taken) do send_later(one.command, one.until_s) end
end

-- Called with every request of a worker.
function settlements.ensure_sweep()
  if is_sweeping then return end
  is_sweeping = true
  ngx.timer.every(SWEEP_S, sweep)
end

return settlements
