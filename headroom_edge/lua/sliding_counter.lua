-- Kernel of sliding_counter (s). Parameters: n = limit, W = window in µs, aligned to the epoch.
-- State: window index, count of this window, count of the previous one. The functions' contract is in bucket.lua.
-- Admits if and only if cur·W + prev·(W − elapsed) + cost·W <= n·W; n·W < 2^52, so every sum is exact.
local counter = { format = 'I6I7I7', compact = 'I6I4I4', width = 3 }

function counter.fits(limit) return limit.n < 4294967296 end

local function current(limit, state, o, now)
  local W = limit.W
  local window = floor(now / W)
  local stored = state[o]
  if stored == window then return window, state[o + 1], state[o + 2], now - window * W end
  if stored == window - 1 then return window, 0, state[o + 1], now - window * W end
  if stored < window then return window, 0, 0, now - window * W end
  if stored - window > 1 then
    state[o], state.mended = window, true
    return window, state[o + 1], state[o + 2], now - window * W
  end
  return stored, state[o + 1], state[o + 2], 0
end

local function left(limit, cur, prev, elapsed)
  local W = limit.W
  local weight = limit.n * W - cur * W - prev * (W - elapsed)
  if weight <= 0 then return 0 end
  return floor(weight / W)
end

-- µs from the start of this window until `cost` more units fit, if no other request arrives.
local function fits_at(limit, cur, prev, cost)
  local W, n = limit.W, limit.n
  if cur + cost <= n then
    if prev == 0 then return 0 end
    return max(0, ceil((prev - (n - cost - cur)) * W / prev))
  end
  return W + max(0, ceil((cur - (n - cost)) * W / cur))
end

function counter.decide(limit, state, o, now, cost, out)
  local window, cur, prev, elapsed = current(limit, state, o, now)
  local W = limit.W
  if (cur + cost) * W + prev * (W - elapsed) > limit.n * W then
    out[o], out[o + 1], out[o + 2] = state[o], state[o + 1], state[o + 2]
    local remaining = left(limit, cur, prev, elapsed)
    if cost > limit.n then return false, remaining, -1, 0 end
    return false, remaining, window * W + fits_at(limit, cur, prev, cost) - now, 0
  end
  out[o], out[o + 1], out[o + 2] = window, cur + cost, prev
  return true, left(limit, cur + cost, prev, elapsed), 0, 0
end

function counter.reset(limit, state, o, now)
  local window, cur, prev, elapsed = current(limit, state, o, now)
  local remaining = left(limit, cur, prev, elapsed)
  if remaining >= limit.n then return 0 end
  return max(0, window * limit.W + fits_at(limit, cur, prev, remaining + 1) - now)
end

function counter.used(limit, state, o, at)
  local window, cur, prev, elapsed = current(limit, state, o, at)
  return (cur * limit.W + prev * (limit.W - elapsed)) / limit.W
end

function counter.with_used(limit, used, at, out, o)
  out[o], out[o + 1], out[o + 2] = floor(at / limit.W), ceil(used), 0
end

-- A counter that was reset since has nothing to give back.
function counter.refund(limit, state, o, now, cost, given_us)
  if state[o] == 0 then return false end
  local window, cur, prev = current(limit, state, o, now)
  if window * limit.W > now then return false end -- the clock went backwards, so the charged window is unknown
  local given = floor(given_us / limit.W)
  if given == window then
    cur = max(0, cur - cost)
  elseif given == window - 1 then
    prev = max(0, prev - cost)
  else
    return false
  end
  state[o], state[o + 1], state[o + 2] = window, cur, prev
  return true
end

-- A lease ends before its window does, so a block is simply counted.
function counter.rest(limit, out, o, now) return (out[o] + 1) * limit.W - now - 1 end

function counter.room(limit, out, o, now)
  local _, cur, prev, elapsed = current(limit, out, o, now)
  return left(limit, cur, prev, elapsed)
end

function counter.lease(limit, out, o, now, lasts, units)
  out[o + 1] = out[o + 1] + units
  return out[o]
end

function counter.give_back(limit, state, o, now, units, window)
  if state[o] == window then
    state[o + 1] = max(0, state[o + 1] - units)
  elseif state[o] == window + 1 then
    state[o + 2] = max(0, state[o + 2] - units)
  else
    return false
  end
  return true
end

H.kinds.s = counter
