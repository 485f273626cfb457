-- Kernel of fixed_window (f). Parameters: n = limit, W = window in µs, aligned to the epoch.
-- State: window index, count. The functions' contract is in bucket.lua.
local fixed = { format = 'I6I7', compact = 'I6I4', width = 2 }

function fixed.fits(limit) return limit.n < 4294967296 end

-- The current window and its count. A stored window that is ahead of the clock by one stays current (going back to
-- the earlier one would admit twice); if it is further ahead, its count moves to the clock's window.
local function current(limit, state, o, now)
  local window = (now - now % limit.W) / limit.W
  local stored = state[o]
  if stored == window then return window, state[o + 1] end
  if stored < window then return window, 0 end
  if stored - window > 1 then state[o], state.mended = window, true end
  return state[o], state[o + 1]
end

function fixed.decide(limit, state, o, now, cost, out)
  local W = limit.W
  local window, count = (now - now % W) / W, 0
  if state[o] == window then
    count = state[o + 1]
  elseif state[o] > window then
    window, count = current(limit, state, o, now)
  end
  if count + cost > limit.n then
    out[o], out[o + 1] = state[o], state[o + 1]
    if cost > limit.n then return false, max(0, limit.n - count), -1, 0 end
    return false, max(0, limit.n - count), (window + 1) * W - now, 0
  end
  out[o], out[o + 1] = window, count + cost
  return true, limit.n - count - cost, 0, 0
end

function fixed.reset(limit, state, o, now)
  local window, count = current(limit, state, o, now)
  if count == 0 then return 0 end
  return (window + 1) * limit.W - now
end

function fixed.used(limit, state, o, at)
  local window, count = current(limit, state, o, at)
  return count
end

function fixed.with_used(limit, used, at, out, o)
  out[o], out[o + 1] = floor(at / limit.W), ceil(used)
end

function fixed.refund(limit, state, o, now, cost, given_us)
  local window, count = current(limit, state, o, now)
  if state[o] ~= window or floor(given_us / limit.W) ~= window then return false end
  state[o], state[o + 1] = window, max(0, count - cost)
  return true
end

-- A lease ends before its window does, so a block is simply counted.
function fixed.rest(limit, out, o, now) return (out[o] + 1) * limit.W - now - 1 end

function fixed.room(limit, out, o) return limit.n - out[o + 1] end

function fixed.lease(limit, out, o, now, lasts, units)
  out[o + 1] = out[o + 1] + units
  return out[o]
end

function fixed.give_back(limit, state, o, now, units, window)
  if state[o] ~= window then return false end
  state[o + 1] = max(0, state[o + 1] - units)
  return true
end

H.kinds.f = fixed
