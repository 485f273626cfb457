-- Blocks of units that a process spends without asking: what hr_lease, hr_return, hr_refund and hr_reset share.
-- A block is charged as if all of it were spent at the lease's end, so there is no list of leases. Beside each leased
-- record, <record key>:e is a note with what giving back must know: since when the note is kept without a break, the
-- latest end of any lease, and for each bucket how far its TAT went back so far, in µs.
local leases = {}
H.leases = leases

local DEFAULT_US, LONGEST_US, SHORTEST_US = 100000, 1000000, 1000
-- Of what is left, a process gets a quarter at most, so that several find some; blocks of few units are not worth it.
local SHARE, LEAST = 4, 8
local MOST_CALLS = 1000000 -- times MAX_COST stays exact
local MOST_BACK = 2 ^ 51 -- TAT plus this stays exact

-- How long a limit may be leased in µs; 0: never.
local function length_of(limit)
  local kernel = limit.kernel
  if not kernel.lease or limit.shapes then return 0 end
  local us = limit.le and limit.le * 1000 or DEFAULT_US
  return min(us, LONGEST_US, kernel.longest and kernel.longest(limit) or us)
end

local function add_dimensions(group, names, known)
  for _, alternative in ipairs(group.d or {}) do
    for _, name in ipairs(alternative) do
      if not known[name] then known[name], names[#names + 1] = true, name end
    end
  end
end

-- Called once per decoded plan.
function leases.prepare(plan)
  local names, known, places = {}, {}, 0
  plan.lease_us = LONGEST_US
  for _, group in ipairs(plan.g) do
    add_dimensions(group, names, known)
    group.buckets = {}
    for _, limit in ipairs(group.l) do
      if limit.P then group.buckets[#group.buckets + 1] = limit.o end
      if not limit.x then
        places = places + 1
        limit.place = places
        plan.lease_us = min(plan.lease_us, length_of(limit))
      end
    end
    group.note_format = '<' .. rep('I7', #group.buckets)
  end
  if #plan.g == 0 then plan.lease_us = DEFAULT_US end
  plan.places, plan.dimensions = places, names
end

-- A note from its text. Receipts are good if they are later than `since`. If the record's limits have changed, only the
-- latest end is still of use. No lease is longer than LONGEST_US, whatever a clock that went back makes of its end.
function leases.open(group, text, now)
  local note = { since = now - 1, ends = 0, back = {} }
  local head = 14 + group.last
  local is_same = text and #text == head + 7 * #group.buckets and sub(text, 15, head) == group.plain
  for i, o in ipairs(group.buckets) do
    note.back[o] = is_same and unpack_struct('<I7', text, head + 1 + (i - 1) * 7) or 0
  end
  if text and #text >= 14 then
    local since, ends = unpack_struct('<I7I7', text)
    note.ends = min(ends, now + LONGEST_US)
    if is_same then note.since = since end
  end
  return note
end

-- The note of a record; nil if there is none.
function leases.note(group, record, now)
  local text = call('GET', H.keys.leases(record))
  return text and leases.open(group, text, now)
end

function leases.keep(group, record, note)
  local numbers = {}
  for i, o in ipairs(group.buckets) do numbers[i] = note.back[o] end
  local text = pack('<I7I7', note.since, note.ends) .. group.plain .. pack(group.note_format, unpack_(numbers))
  call('SET', H.keys.leases(record), text, 'PX', group.ttl)
end

-- From now on, no earlier lease of this record gives anything back. Refunds must still know what leases gave back.
function leases.forget(group, record, note, now)
  note.since = now
  for _, limit in ipairs(group.l) do
    local back = limit.P and note.back[limit.o] or 0
    if back > 0 then H.moved.add(record, limit, limit.o, now, back) end
  end
  for _, o in ipairs(group.buckets) do note.back[o] = 0 end
  leases.keep(group, record, note)
end

-- Gives units of a lease back to one record's state. Returns whether that changed it.
function leases.give_back(group, record, state, note, settlement, now)
  if note.since >= settlement.given then return false end
  local is_changed = false
  for _, limit in ipairs(group.l) do
    if not limit.x then
      local units = limit.u and settlement.back_calls or settlement.back_cost
      local number, key = settlement.numbers[limit.place], limit.kernel.ring and H.keys.ring(record, limit)
      if units > 0 and limit.kernel.give_back(limit, state, limit.o, now, units, number, key, note) then
        is_changed = true
      end
    end
  end
  for _, o in ipairs(group.buckets) do
    if note.back[o] > MOST_BACK then note.since, note.back[o] = now, 0 end
  end
  return is_changed
end

-- Both numbers shrink in proportion: a process stops when either is used up, so more of the other would be idle.
local function in_proportion(calls, cost, want_calls, want_cost)
  if calls * want_cost <= cost * want_calls then return calls, ceil(calls * want_cost / want_calls) end
  return ceil(cost * want_calls / want_cost), cost
end

-- The largest good block after a decision that all limits admit: calls, cost and µs; nil if there is none.
function leases.block(verdicts, count, outs, want_calls, want_cost, lasts, now)
  want_calls = min(want_calls, MOST_CALLS)
  local calls, cost = want_calls, want_cost
  for n = 1, count do
    local limit = verdicts[n]
    local rest = limit.kernel.rest
    if rest then lasts = min(lasts, rest(limit, outs[limit.i], limit.o, now)) end
  end
  if lasts < SHORTEST_US then return nil end
  for n = 1, count do
    local limit = verdicts[n]
    local part = floor(limit.kernel.room(limit, outs[limit.i], limit.o, now, lasts) / SHARE)
    if limit.block then part = min(part, limit.block) end
    if limit.u then calls = min(calls, part) else cost = min(cost, part) end
  end
  if calls < LEAST or cost < LEAST then return nil end
  calls, cost = in_proportion(calls, cost, want_calls, want_cost)
  if calls < LEAST or cost < LEAST then return nil end
  return calls, cost, lasts
end

-- Charges a block to all limits, and adds their numbers to `receipt`.
function leases.charge(verdicts, count, outs, notes, calls, cost, lasts, now, receipt)
  for n = 1, count do
    local limit = verdicts[n]
    local out, kernel, units = outs[limit.i], limit.kernel, limit.u and calls or cost
    local number = kernel.lease(limit, out, limit.o, now, lasts, units, notes[limit.i])
    receipt[#receipt + 1] = format('%.0f', number)
    if kernel.ring then kernel.append(limit, limit.o, limit.key, units, out, limit.group.ttl) end
  end
  for _, note in pairs(notes) do note.ends = max(note.ends, now + lasts) end
end
