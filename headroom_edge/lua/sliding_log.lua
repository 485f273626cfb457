-- Kernel of sliding_log (o). Parameters: n = limit (<= 10,000), W = window in µs.
-- State in the record: next slot to write, entries held, newest entry in µs. The entries are a ring of
-- n doubles beside the record, under <record key>:l:<limit id>; one entry per unit of cost, oldest first.
-- The functions' contract is in bucket.lua. In addition, `key` is the ring's key, and `write` adds admitted entries.
-- The ring is read with GETRANGE, always before the check writes anything.
local log = { format = 'I2I2I7', width = 3, ring = true }

local CHUNK = 64

-- The entries from i on (0 = oldest), at most `most`, up to the end of the ring's string.
local function entries(limit, key, tail, i, most)
  local slot = (tail + i) % limit.n
  local count = min(most, limit.n - slot)
  local bytes = call('GETRANGE', key, slot * 8, (slot + count) * 8 - 1)
  if #bytes ~= count * 8 then return nil end
  return { unpack_struct('<' .. rep('d', count), bytes) }, count
end

-- The entries after `cutoff`: slot of the oldest, how many there are, and the oldest's time.
local function live(limit, state, o, key, cutoff)
  local head, held = state[o], state[o + 1]
  if held == 0 or state[o + 2] <= cutoff then return head, 0, 0 end
  local tail = (head - held) % limit.n
  local gone = 0
  while gone < held do
    local found, count = entries(limit, key, tail, gone, min(CHUNK, held - gone))
    if not found then return 0, 0, 0 end -- the ring was lost: start empty
    for i = 1, count do
      if found[i] > cutoff then return (tail + gone) % limit.n, held - gone, found[i] end
      gone = gone + 1
    end
  end
  return head, 0, 0
end

function log.move(state, o)
  state.moved = state.moved or {}
  state.moved[o] = true
end

-- The log's time never runs backwards. If it is ahead of the clock by more than a window, all entries move to `now`.
local function clock(limit, state, o, now)
  local newest = state[o + 2]
  if newest <= now then return now end
  if newest - now <= limit.W then return newest end
  state[o + 2], state.mended = now, true
  log.move(state, o)
  return now
end

-- While `state.moved` is set, all entries have the newest entry's time, and the ring still has to be rewritten.
local function look(limit, state, o, now, key)
  local time = clock(limit, state, o, now)
  if not (state.moved and state.moved[o]) then return time, live(limit, state, o, key, time - limit.W) end
  if state[o + 2] <= time - limit.W then state[o + 1] = 0 end
  return time, 0, state[o + 1], state[o + 2]
end

local function entry_at(limit, state, o, key, tail, i)
  if state.moved and state.moved[o] then return state[o + 2] end
  local found = entries(limit, key, tail, i, 1)
  return found and found[1] or 0
end

-- For log.reset, which must not read the ring again because it may have changed since.
local function remember_oldest(state, o, oldest)
  state.oldest = state.oldest or {}
  state.oldest[o] = oldest
end

function log.decide(limit, state, o, now, cost, out, key)
  local time, tail, held, oldest = look(limit, state, o, now, key)
  if held == 0 then oldest = time end
  remember_oldest(state, o, held > 0 and oldest)
  remember_oldest(out, o, oldest)
  if held + cost > limit.n then
    out[o], out[o + 1], out[o + 2] = state[o], state[o + 1], state[o + 2]
    local remaining = max(0, limit.n - held)
    if cost > limit.n then return false, remaining, -1, 0 end
    local last = entry_at(limit, state, o, key, tail, held + cost - limit.n - 1)
    return false, remaining, last + limit.W - now, 0
  end
  out[o], out[o + 1], out[o + 2] = (tail + held + cost) % limit.n, held + cost, time
  return true, limit.n - held - cost, 0, 0
end

-- Uses the oldest entry that `decide` remembered.
function log.reset(limit, state, o, now)
  local oldest = state.oldest and state.oldest[o]
  return oldest and oldest + limit.W - now or 0
end

-- Rewrites the ring of a moved log: `held` entries, all with the newest one's time.
function log.mend(limit, state, o, key, ttl)
  if not (state.moved and state.moved[o]) then return end
  local held = state[o + 1]
  state[o] = held % limit.n
  if held > 0 then call('SET', key, rep(pack('<d', state[o + 2]), held), 'PX', ttl) end
end

-- Adds the `cost` newest entries of `out` to the ring.
function log.write(limit, state, o, key, cost, out, ttl)
  log.mend(limit, state, o, key, ttl)
  local slot = (out[o] - cost) % limit.n
  local first = min(cost, limit.n - slot)
  local entry = pack('<d', out[o + 2])
  call('SETRANGE', key, slot * 8, rep(entry, first))
  if cost > first then call('SETRANGE', key, 0, rep(entry, cost - first)) end
  call('PEXPIRE', key, ttl)
end

function log.used(limit, state, o, at, key)
  if state.moved and state.moved[o] then return state[o + 2] > at - limit.W and state[o + 1] or 0 end
  local _, held = live(limit, state, o, key, at - limit.W)
  return held
end

function log.with_used(limit, used, at, out, o)
  local held = ceil(used)
  out[o], out[o + 1], out[o + 2] = held % limit.n, held, at
  out.moved = { [o] = true }
end

function log.refund(limit, state, o, now, cost, given_us, _, key)
  local _, tail, held = look(limit, state, o, now, key)
  local found = 0
  local kept = {}
  for i = 0, held - 1 do
    local time = entry_at(limit, state, o, key, tail, i)
    if time == given_us and found < cost then found = found + 1 else kept[#kept + 1] = pack('<d', time) end
  end
  if found == 0 then return false end
  state[o], state[o + 1] = #kept % limit.n, #kept
  state[o + 2] = #kept > 0 and unpack_struct('<d', kept[#kept]) or 0
  state.ring = concat(kept)
  return true
end

H.kinds.o = log
