-- A record: one string per (scope, subject) with the state of every limit of that scope.
-- Layout: 1 byte number of limits (+ 128 if the subject is sampled); per limit 2 bytes id, 3 bytes generation
-- and 1 byte form; then the numbers of each limit in the format of its form.
-- If the header equals the plan's, the numbers are unpacked directly. Otherwise the limits are matched by id, and
-- where the generation differs, their use is carried over to the new parameters.
local record = {}
H.record = record

local GENERATIONS = 16777216 -- a generation has 3 bytes
local TURNS = 8 -- its last 3 bits number the times that the same parameters were in force
local SAMPLED = 128

-- A form is the letter of a limit's kind; a capital letter means that the numbers are stored in fewer bytes.
local function form_of(limit)
  local kernel = limit.kernel
  if kernel.compact and kernel.fits(limit) then return limit.k:upper() end
  return limit.k
end

local function format_of(form)
  local kind = form:lower()
  local kernel = H.kinds[kind]
  return kernel and (form == kind and kernel.format or kernel.compact), kernel, kind
end

-- Whether two generations have the same parameters, possibly at different times.
function record.is_same(one, other) return one - one % TURNS == other - other % TURNS end

-- Called once per decoded plan.
function record.prepare(group)
  local header, formats, o = '', '<', 1
  for _, limit in ipairs(group.l) do
    local form = form_of(limit)
    limit.h = limit.h % GENERATIONS
    for _, past in ipairs(limit.generations) do
      past.h = past.h % GENERATIONS
      limit.returned = limit.returned or record.is_same(past.h, limit.h)
    end
    header = header .. pack('>I2I3', limit.number, limit.h) .. form
    formats = formats .. format_of(form)
    limit.o = o
    o = o + limit.kernel.width
  end
  local count = #group.l
  group.plain, group.marked = string.char(count) .. header, string.char(count + SAMPLED) .. header
  group.format, group.last, group.start, group.numbers = formats, #header + 1, #header + 2, o - 1
  group.size = group.last + struct.size(formats)
  group.whole = '<c' .. group.last .. sub(formats, 2) -- header and numbers in one, without a string in between
  group.has = {}
  for _, limit in ipairs(group.l) do
    group.has[limit.number] = true
    group.calendar = group.calendar or limit.k == 'q'
  end
  group.zeros = record.fresh(group)
end

function record.fresh(group)
  local state = {}
  for i = 1, group.numbers do state[i] = 0 end
  return state
end

function record.is_sampled(text) return byte(text, 1) >= SAMPLED end

-- The limits of a record written under another plan, by id (generation, kind, offset of its numbers); and the numbers.
function record.parse(text)
  local found, formats, offset = {}, '<', 1
  local count = byte(text, 1) % SAMPLED
  if #text < 1 + count * 6 then return {}, {} end
  for i = 1, count do
    local at = 2 + (i - 1) * 6
    local id, generation = unpack_struct('>I2I3', text, at)
    local format_, kernel, kind = format_of(sub(text, at + 5, at + 5))
    if not format_ then return {}, {} end
    found[id] = { generation = generation, kind = kind, offset = offset }
    formats = formats .. format_
    offset = offset + kernel.width
  end
  if count == 0 or #text ~= 1 + count * 6 + struct.size(formats) then return {}, {} end
  return found, { unpack_struct(formats, text, 2 + count * 6) }
end

-- The index of a generation in the limit's past. If its exact turn is forgotten: the newest with the same parameters.
local function generation_of(limit, generation)
  local newest
  for i, past in ipairs(limit.generations) do
    if past.h == generation then return i end
    if not newest and record.is_same(past.h, generation) then newest = i end
  end
  return newest
end

-- If the current parameters were in force before, their turn must match too; otherwise equal parameters will do.
local function is_current(limit, generation)
  return generation == limit.h or not limit.returned and record.is_same(generation, limit.h)
end

-- Carries the use from the record's generation to the plan's, one change of parameters after another.
local function carry(limit, old, numbers, state, now, key)
  local from = generation_of(limit, old.generation)
  if not from then return end
  local kernel, o = limit.kernel, limit.o
  local current, offset = numbers, old.offset
  for i = from - 1, 0, -1 do
    local before = limit.generations[i + 1]
    local after = i == 0 and limit or limit.generations[i]
    if after.cm == 'reset' or before.k ~= after.k or (before.ready == false) then return end
    local at = min(after.T, now)
    local out = {}
    if after.k == 'l' then
      out[o], out[o + 1] = current[offset] + (current[offset + 1] > 0 and 1 or 0), 0
    elseif kernel.carry then
      kernel.carry(before, after, current, offset, at, out, o)
    else
      local used = kernel.used(before, current, offset, at, key)
      if after.cm == 'proportional' then used = used * after.n / before.n end
      kernel.with_used(after, min(used, after.n), at, out, o)
    end
    current, offset = out, o
  end
  for i = o, o + kernel.width - 1 do state[i] = current[i] end
  if current.moved then kernel.move(state, o) end
end

-- A promoted candidate keeps its own state. Its ring has another key and is lost, so all entries move to the newest.
local function copy(limit, old, numbers, state, promoted)
  for i = 0, limit.kernel.width - 1 do state[limit.o + i] = numbers[old.offset + i] end
  if promoted and limit.kernel.ring then limit.kernel.move(state, limit.o) end
end

-- What is carried over may be counted in a ring, also in one of a limit that this endpoint does not use.
function record.prove_rings(group, key)
  local names = { key }
  for _, limit in ipairs(group.l) do
    if limit.kernel.ring then names[#names + 1] = H.keys.ring(key, limit) end
  end
  if #names > 1 then H.reach.prove(unpack_(names)) end
end

-- The state of a record that was written under another plan.
function record.adopt(group, text, now, key)
  record.prove_rings(group, key)
  local found, numbers = record.parse(text)
  local state = record.fresh(group)
  for _, limit in ipairs(group.l) do
    -- If the plan still has a candidate with that number, the stored state belongs to that new candidate.
    local promoted = limit.ad and not group.has[limit.ad] and found[limit.ad]
    local old = promoted or found[limit.number]
    if old and old.kind == limit.k and limit.kernel.width > 0 then
      if promoted or is_current(limit, old.generation) then
        copy(limit, old, numbers, state, promoted)
      else
        carry(limit, old, numbers, state, now, limit.kernel.ring and H.keys.ring(key, limit))
      end
    end
  end
  return state
end

-- For the less frequent functions. hr_check has the same code inline.
function record.read(group, text, now, key)
  if #text == 0 then return record.fresh(group) end
  local head = sub(text, 1, group.last)
  if #text == group.size and (head == group.plain or head == group.marked) then
    return { unpack_struct(group.format, text, group.start) }
  end
  return record.adopt(group, text, now, key)
end

-- Rewrites the rings of logs whose entries moved and that were not written already.
function record.mend_rings(group, key, state, is_written)
  if not state.moved then return end
  for _, limit in ipairs(group.l) do
    -- `kernel.ring` is tested too, because a concurrency limit has no numbers and shares the next limit's offset.
    if limit.kernel.ring and state.moved[limit.o] and not (is_written and is_written(limit)) then
      limit.kernel.mend(limit, state, limit.o, H.keys.ring(key, limit), group.ttl)
    end
  end
end

-- Marks a record with a calendar quota for export (calendars.lua), so that its use survives a loss of this server.
function record.touch(key)
  local last = find(key, '}', 1, true)
  call('HSET', H.keys.touched(sub(key, 1, last)), sub(key, last + 1), 1)
end

function record.write(group, key, state, text)
  record.mend_rings(group, key, state)
  local head = record.is_sampled(text) and group.marked or group.plain
  call('SET', key, pack(group.whole, head, unpack_(state, 1, group.numbers)), 'PX', group.ttl)
  if group.calendar then record.touch(key) end
end
