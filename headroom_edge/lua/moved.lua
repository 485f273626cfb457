-- How far the TATs of buckets went back: what a refund must know about the refunds before it.
-- Charges flow back one after the other, and a receipt has the TAT at which its charge ends. When an earlier charge is given
-- back, all later ones end sooner by as much. So every step back is kept beside the record, in <record>:b: a hash of
-- `<limit>:<generation>:<place>` → pairs of (when, µs), oldest first. A charge counts all steps since it was made: also
-- those of charges behind it, which did not move it. It then gets a little less back if it has almost flowed back already.
-- Only hr_refund and hr_reset come here, and both are refused while a cluster moves the slot.
local moved = {}
H.moved = moved

-- More would cost memory. The oldest two become one, dated as the later one: more receipts count it than must.
local KEPT = 32
local GONE = 2 ^ 51 -- µs: nothing is left of any earlier charge

local function field_of(limit, o) return limit.id .. ':' .. format('%d', limit.h) .. ':' .. (o - limit.o) end

local function open(record, limit, o)
  local text, steps = call('HGET', H.keys.moved(record), field_of(limit, o)), {}
  for at = 1, text and #text or 0, 14 do
    local when, us = unpack_struct('<I7I7', text, at)
    steps[#steps + 1] = { when, us }
  end
  return steps
end

local function keep(record, limit, o, steps)
  local parts = {}
  for i, step in ipairs(steps) do parts[i] = pack('<I7I7', step[1], step[2]) end
  call('HSET', H.keys.moved(record), field_of(limit, o), concat(parts))
  call('PEXPIRE', H.keys.moved(record), limit.group.ttl)
end

function moved.add(record, limit, o, now, us)
  local steps = open(record, limit, o)
  steps[#steps + 1] = { now, us }
  if #steps > KEPT then
    local oldest = table.remove(steps, 1)
    steps[1] = { max(oldest[1], steps[1][1]), min(GONE, oldest[2] + steps[1][2]) }
  end
  keep(record, limit, o, steps)
end

-- Where the buckets of a limit have their TATs.
function moved.places(limit)
  if limit.P then return { limit.o } end
  local places = {}
  if not limit.chain then return places end
  if limit.rate then places[1] = limit.o end
  if limit.ceiling then places[#places + 1] = limit.o + 2 end
  return places
end

-- Nothing that was charged before counts any more.
function moved.clear(record, limit, now)
  for _, o in ipairs(moved.places(limit)) do moved.add(record, limit, o, now, GONE) end
end

-- Keeps how far the buckets of a limit went back from its numbers `before` to the state `after`.
function moved.compare(record, limit, before, after, now)
  for _, o in ipairs(moved.places(limit)) do
    local at = o - limit.o + 1
    local us = before[at] - after[o] + (before[at + 1] > after[o + 1] and 1 or 0)
    if us > 0 then moved.add(record, limit, o, now, us) end
  end
end

-- The TAT at which a charge ends by now, if it ended at `tat` when it was made; 0 if nothing is left of it. `more` is
-- what leases gave back.
function moved.end_of(record, limit, o, given, tat, more, now)
  if now >= tat then return 0 end
  local back = more or 0
  for _, step in ipairs(open(record, limit, o)) do
    if step[1] >= given then back = back + step[2] end
  end
  return back < GONE and max(1, tat - back) or 0
end
