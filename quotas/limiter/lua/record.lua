-- A record: one string per (scope, subject) that holds the state of every limit of that scope.
-- Layout: 1 byte sampled or not ('\1' / '\2'), 1 byte number of limits, per limit 2 bytes id, 4 bytes
-- generation, 1 byte kind; then the numbers of each limit as its kernel's format says.
-- A header equal to the plan's is unpacked at once; otherwise the limits are mapped by id, and where
-- the generation differs their units are carried over to the new parameters.
local record = {}
H.record = record

-- Called once per decoded plan.
function record.prepare(group)
  local header, formats, o = string.char(#group.l), '<', 1
  for _, limit in ipairs(group.l) do
    header = header .. pack('>I2I4', limit.i, limit.h) .. limit.k
    formats = formats .. limit.kernel.format
    limit.o = o
    o = o + limit.kernel.width
  end
  group.plain, group.marked, group.format = '\1' .. header, '\2' .. header, formats
  group.last, group.start, group.numbers = #header + 1, #header + 2, o - 1
  group.zeros = record.fresh(group)
end

function record.fresh(group)
  local state = {}
  for i = 1, group.numbers do state[i] = 0 end
  return state
end

-- Old limits of a foreign record by id: generation, kind and the offset of its numbers.
local function parse(text)
  local found = {}
  local count = byte(text, 2)
  local format_ = '<'
  local offset = 1
  for i = 1, count do
    local at = 3 + (i - 1) * 7
    local id, generation = unpack_struct('>I2I4', text, at)
    local kind = sub(text, at + 6, at + 6)
    local kernel = H.kinds[kind]
    if not kernel then return {}, {} end
    found[id] = { generation = generation, kind = kind, offset = offset }
    format_ = format_ .. kernel.format
    offset = offset + kernel.width
  end
  if count == 0 then return found, {} end
  return found, { unpack_struct(format_, text, 3 + count * 7) }
end

-- Walks from the generation the record was written with to the plan's, one change after another.
local function carry(limit, old, numbers, state, now, key)
  local from
  for i, past in ipairs(limit.generations) do
    if past.h == old.generation then from = i break end
  end
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

-- A promoted candidate brings its own state along; its ring stays behind, so its entries move to the newest.
local function copy(limit, old, numbers, state, promoted)
  for i = 0, limit.kernel.width - 1 do state[limit.o + i] = numbers[old.offset + i] end
  if promoted and limit.kernel.ring then limit.kernel.move(state, limit.o) end
end

-- The state of a record that was written under another plan.
function record.adopt(group, text, now, key)
  local found, numbers = parse(text)
  local state = record.fresh(group)
  for _, limit in ipairs(group.l) do
    local promoted = limit.ad and found[limit.ad]
    local old = promoted or found[limit.number]
    if old and old.kind == limit.k and limit.kernel.width > 0 then
      if promoted or old.generation == limit.h then
        copy(limit, old, numbers, state, promoted)
      else
        carry(limit, old, numbers, state, now, limit.kernel.ring and H.keys.ring(key, limit))
      end
    end
  end
  return state
end

-- For the rarer functions; hr_check has the same inline. `head` is how the record begins.
function record.read(group, text, now, key)
  local head = sub(text, 1, group.last)
  if head == group.plain or head == group.marked then
    return { unpack_struct(group.format, text, group.start) }
  end
  return record.adopt(group, text, now, key)
end

-- Logs whose entries moved, and to which nothing is added now, get their rings rewritten.
function record.mend_rings(group, key, state, is_written)
  if not state.moved then return end
  for _, limit in ipairs(group.l) do
    if state.moved[limit.o] and not (is_written and is_written(limit)) then
      limit.kernel.mend(limit, state, limit.o, H.keys.ring(key, limit), group.ttl)
    end
  end
end

function record.write(group, key, state, text)
  record.mend_rings(group, key, state)
  local head = byte(text, 1) == 2 and group.marked or group.plain
  call('SET', key, head .. pack(group.format, unpack_(state, 1, group.numbers)), 'PX', group.ttl)
end
