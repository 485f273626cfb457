-- Settles blocks: says what was spent, and gives back the rest. Each block once, by the worker that sealed it.
-- A lost reply may have settled it; the store settles a receipt once, so the same numbers are sent again.
local blocks = require "headroom.blocks"
local checks = require "headroom.checks"
local clock = require "headroom.clock"
local denials = require "headroom.denials"
local store = require "headroom.store"

local find, format, sub = string.find, string.format, string.sub

local SWEEP_S, PATIENCE_S, PAUSE_S, ADOPT_S = 0.1, 1, 1, 10
local REPEATED_S = 100 -- the store forgets receipts after two minutes
local OWN_KEPT, AT_ONCE, ORPHANS = 10000, 1000, 1024

local settlements = {}
local own, own_count = {}, 0 -- blocks that this worker has got, by id
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
  if clock.now() < until_s then blocks.queue(format("%.0f ", until_s) .. command) end
end

-- The commands that wait, and until when each is worth sending.
local function take_late()
  local commands, ends = {}, {}
  while #commands < AT_ONCE do
    local text = blocks.dequeue()
    if not text then break end
    local space, place = find(text, " ", 1, true), #commands + 1
    commands[place], ends[place] = sub(text, space + 1), tonumber(sub(text, 1, space - 1))
  end
  return commands, ends
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
  if not is_ending and (not store.is_well() or now < next_s) then return end
  adopt(now)
  seal_own(is_ending)
  local commands, ends = take_late()
  denials.take_reports(commands)
  if #commands == 0 then return end
  local replies = store.attend(commands, PATIENCE_S)
  for i = 1, #ends do
    if not replies[i] then
      send_later(commands[i], ends[i])
      next_s = clock.now() + PAUSE_S
    end
  end
end

-- Called with every request of a worker.
function settlements.ensure_sweep()
  if is_sweeping then return end
  is_sweeping = true
  ngx.timer.every(SWEEP_S, sweep)
end

return settlements
