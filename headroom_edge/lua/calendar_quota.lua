-- Kernel of calendar_quota (q). Parameters: n = limit, K = id of the calendar, a sorted list of period
-- boundaries in whole UTC seconds (compiled in Python, because Lua has no time zones).
-- State: start of the period in seconds, count. The functions' contract is in bucket.lua.
local calendar = { format = 'I5I7', compact = 'I5I4', width = 2 }

function calendar.fits(limit) return limit.n < 4294967296 end

-- The period that contains `now`: start and end in seconds. After the last boundary, periods keep the last length.
local function period(limit, now)
  local list, seconds = limit.calendar, now / 1000000
  local low, high = limit.low, limit.high
  if low and seconds >= low and seconds < high then return low, high end
  local a, b = 1, #list
  while b - a > 1 do
    local middle = floor((a + b) / 2)
    if list[middle] <= seconds then a = middle else b = middle end
  end
  if list[b] <= seconds then
    limit.low, limit.high = list[b], list[b] + (list[b] - list[b - 1])
  else
    limit.low, limit.high = list[a], list[b]
  end
  return limit.low, limit.high
end

-- A lost block is lost for the rest of the period, so it is at most 0.1 % of the quota.
function calendar.prepare(limit, calendars)
  limit.block = floor(limit.n / 1000)
  limit.calendar = calendars(limit.K)
  return limit.calendar ~= nil
end

-- Start, end and count of the current period. The stored start may be ahead of the clock, if the clock went
-- backwards: up to one period ahead it stays; further ahead, its count moves to the period of `now`.
local function current(limit, state, o, now)
  local low, high = period(limit, now)
  local stored = state[o]
  if stored == low then return low, high, state[o + 1] end
  if stored < low then return low, high, 0 end
  if stored > high then
    state[o], state.mended = low, true
    return low, high, state[o + 1]
  end
  local _, stored_high = period(limit, stored * 1000000)
  return stored, stored_high, state[o + 1]
end

function calendar.decide(limit, state, o, now, cost, out)
  local start, finish, count = current(limit, state, o, now)
  if count + cost > limit.n then
    out[o], out[o + 1] = state[o], state[o + 1]
    if cost > limit.n then return false, max(0, limit.n - count), -1, 0 end
    return false, max(0, limit.n - count), finish * 1000000 - now, 0
  end
  out[o], out[o + 1] = start, count + cost
  return true, limit.n - count - cost, 0, 0
end

function calendar.reset(limit, state, o, now)
  local start, finish, count = current(limit, state, o, now)
  if count == 0 then return 0 end
  return finish * 1000000 - now
end

function calendar.used(limit, state, o, at)
  local start, finish, count = current(limit, state, o, at)
  return count
end

function calendar.with_used(limit, used, at, out, o)
  local start = period(limit, at)
  out[o], out[o + 1] = start, ceil(used)
end

function calendar.refund(limit, state, o, now, cost, given_us)
  local start, finish, count = current(limit, state, o, now)
  local given = period(limit, given_us)
  if given ~= start or state[o] ~= start then return false end
  state[o + 1] = max(0, count - cost)
  return true
end

-- A lease ends before its period does, so a block is simply counted.
function calendar.rest(limit, out, o, now)
  local _, finish = period(limit, out[o] * 1000000)
  return finish * 1000000 - now - 1
end

function calendar.room(limit, out, o) return limit.n - out[o + 1] end

function calendar.lease(limit, out, o, now, lasts, units)
  out[o + 1] = out[o + 1] + units
  return out[o]
end

function calendar.give_back(limit, state, o, now, units, start)
  if state[o] ~= start then return false end
  state[o + 1] = max(0, state[o + 1] - units)
  return true
end

H.kinds.q = calendar
