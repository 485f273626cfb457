-- Kernel of sliding_log (o). Parameters: n = limit (<= 10,000), W = window in µs.
-- State in the record: next slot to write, entries held, newest entry in µs. The entries are a ring of
-- n doubles beside the record, under <record key>:l:<limit id>; one entry per unit of cost, oldest first.
-- The functions' contract is in bucket.lua. In addition, `key` is the ring's key, and `write` adds admitted entries.
-- The ring is read with GETRANGE, always before the check writes anything. If its entries change by more than an
-- admission, state.moved[o] holds all of them as bytes, oldest first, until the ring is rewritten.
-- An entry may be ahead of the clock: by a lease, or because the clock went back. Later entries are never before it.
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

local function replace_entries(state, o, bytes)
  state.moved = state.moved or {}
  state.moved[o] = bytes
end

-- Moves all entries to the time of the newest.
function log.move(state, o)
  replace_entries(state, o, rep(pack('<d', state[o + 2]), state[o + 1]))
end

local function moved(state, o) return state.moved and state.moved[o] end

local function time_at(bytes, i) return (unpack_struct('<d', bytes, i * 8 + 1)) end

-- How many entries are not after `time`.
local function count_until(bytes, time)
  local low, high = 0, #bytes / 8
  while low < high do
    local middle = floor((low + high) / 2)
    if time_at(bytes, middle) > time then high = middle else low = middle + 1 end
  end
  return low
end

-- The time of new entries. If the newest is ahead of the clock by more than a window, all entries move to `now`.
local function clock(limit, state, o, now)
  local newest = state[o + 2]
  if newest <= now then return now end
  if newest - now <= limit.W then return newest end
  state[o + 2], state.mended = now, true
  log.move(state, o)
  return now
end

-- The time of new entries; of the entries within the window: slot of the oldest, how many, and the oldest's time.
local function look(limit, state, o, now, key)
  local time, bytes = clock(limit, state, o, now), moved(state, o)
  if not bytes then return time, live(limit, state, o, key, now - limit.W) end
  bytes = sub(bytes, count_until(bytes, now - limit.W) * 8 + 1)
  state.moved[o], state[o + 1] = bytes, #bytes / 8
  return time, 0, state[o + 1], #bytes > 0 and time_at(bytes, 0) or 0
end

local function entry_at(limit, state, o, key, tail, i)
  local bytes = moved(state, o)
  if bytes then return time_at(bytes, i) end
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

-- Rewrites the ring if its entries were replaced.
function log.mend(limit, state, o, key, ttl)
  local bytes = moved(state, o)
  if not bytes then return end
  state[o] = #bytes / 8 % limit.n
  if #bytes > 0 then call('SET', key, bytes, 'PX', ttl) end
end

function log.write(limit, state, o, key, cost, out, ttl)
  log.mend(limit, state, o, key, ttl)
  log.append(limit, o, key, cost, out, ttl)
end

-- Adds the `cost` newest entries of `out` to the ring.
function log.append(limit, o, key, cost, out, ttl)
  local slot = (out[o] - cost) % limit.n
  local first = min(cost, limit.n - slot)
  local entry = pack('<d', out[o + 2])
  call('SETRANGE', key, slot * 8, rep(entry, first))
  if cost > first then call('SETRANGE', key, 0, rep(entry, cost - first)) end
  call('PEXPIRE', key, ttl)
end

function log.used(limit, state, o, at, key)
  local bytes = moved(state, o)
  if bytes then return #bytes / 8 - count_until(bytes, at - limit.W) end
  local _, held = live(limit, state, o, key, at - limit.W)
  return held
end

function log.with_used(limit, used, at, out, o)
  local held = ceil(used)
  out[o], out[o + 1], out[o + 2] = held % limit.n, held, at
  log.move(out, o)
end

-- All entries of the ring, oldest first; nil if the ring was lost.
local function all(limit, state, o, key)
  local held = state[o + 1]
  if held == 0 then return nil end
  local tail = (state[o] - held) % limit.n
  local first = min(held, limit.n - tail)
  local bytes = call('GETRANGE', key, tail * 8, (tail + first) * 8 - 1)
  if held > first then bytes = bytes .. call('GETRANGE', key, 0, (held - first) * 8 - 1) end
  return #bytes == held * 8 and bytes or nil
end

-- Removes up to `units` entries of that very time.
local function remove(limit, state, o, now, units, time, key)
  clock(limit, state, o, now)
  local bytes = moved(state, o) or all(limit, state, o, key)
  if not bytes then return false end
  local before, upto = count_until(bytes, time - 1), count_until(bytes, time)
  local gone = min(units, upto - before)
  if gone == 0 then return false end
  bytes = sub(bytes, 1, before * 8) .. sub(bytes, (before + gone) * 8 + 1)
  local held = #bytes / 8
  replace_entries(state, o, bytes)
  state[o], state[o + 1], state[o + 2] = held % limit.n, held, held > 0 and time_at(bytes, held - 1) or 0
  return true
end

function log.refund(limit, state, o, now, cost, given_us, _, key)
  if given_us <= now - limit.W then return false end
  return remove(limit, state, o, now, cost, given_us, key)
end

-- The newest entry must never look like one from before a step of the clock.
function log.longest(limit) return limit.W end

function log.room(limit, out, o) return limit.n - out[o + 1] end

-- The entries of a block have the time of its end: no entry may leave before a unit that was spent last.
function log.lease(limit, out, o, now, lasts, units)
  out[o], out[o + 1], out[o + 2] = (out[o] + units) % limit.n, out[o + 1] + units, max(now + lasts, out[o + 2])
  return out[o + 2]
end

function log.give_back(limit, state, o, now, units, time, key)
  return remove(limit, state, o, now, units, time, key)
end

H.kinds.o = log
