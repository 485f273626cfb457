-- Kernel of adaptive_concurrency (a). Parameters: lo, n = least and most in flight, st = start, tg = target in µs,
-- H = hold in µs. Every request counts 1, whatever its cost. The live limit follows the answers' latency; the rule is
-- told in algorithms/adaptive_concurrency.py, which computes the same whole numbers.
-- State: the holders as in concurrency.lua, and 17 numbers in the record. Live limit, target's extra, first window, span,
-- answers, their total latency, drops, peak in flight, three throughputs, mark (limit, throughput, latency, probes), why and
-- when it changed. Limits and throughputs are in thousandths; windows are counted from the epoch.
-- Only an admitted request and a release with a result write them.
local slots = H.kinds.c
local adaptive = {
  format = 'I4I5I5I1I4I7I4I4I4I4I4I4I4I5I1I1I5',
  width = 17,
  holders = true,
  adapts = true,
  mend = slots.mend,
  reset = slots.reset,
  take = slots.take,
}

local WINDOW, SAMPLES, LONGEST = 200000, 10, 50
local PROBES, LAST_PROBE, DECAY, FORGOTTEN = 5, 15, 986, 1000
local X_MAX = 4294967295
local RAISED, SLOW, DROPPED, SLOWER = 1, 2, 3, 4

-- The numbers of a record by name, while they are computed with.
local names = {
  'live', 'extra', 'first', 'span', 'answers', 'total', 'drops', 'peak', 'x1', 'x2', 'x3',
  'marked', 'marked_x', 'marked_us', 'probes', 'why', 'changed',
}

local function restart(s, window)
  s.first, s.span, s.answers, s.total, s.drops, s.peak = window, 0, 0, 0, 0, 0
end

local function forget_extra(s, windows)
  if windows >= FORGOTTEN then s.extra = 0 end
  if s.extra == 0 then return end
  for _ = 1, windows do s.extra = floor(s.extra * DECAY / 1000) end
end

local function mean_x(s)
  local count = (s.x1 > 0 and 1 or 0) + (s.x2 > 0 and 1 or 0) + (s.x3 > 0 and 1 or 0)
  return floor((s.x1 + s.x2 + s.x3) / count)
end

local function adjust(limit, s, mean, target)
  local part = 1000
  if mean > target then
    -- A far slower window means that something else has happened since: compare with that.
    if s.marked == 0 or mean > 2 * s.marked_us then
      s.marked, s.marked_x, s.marked_us, s.probes = s.live, mean_x(s), mean, 0
    end
    part, s.why = max(500, floor(target * 1000 / mean)), SLOW
  end
  if s.drops > 0 then
    local answered = max(500, floor(s.answers * 1000 / (s.answers + s.drops)))
    if s.marked > 0 then s.marked = max(limit.lo * 1000, floor(s.marked * answered / 1000)) end
    if answered < part then part, s.why = answered, DROPPED end
  end
  if part < 1000 then
    s.live = max(limit.lo * 1000, floor(s.live * part / 1000))
  elseif s.peak * 10000 >= s.live * 7 then
    s.live, s.why = min(limit.n * 1000, s.live + max(1000, floor(math.sqrt(s.live * 1000) / 2))), RAISED
  end
end

-- Takes a cut back that lowered the throughput instead of the latency.
local function guard(limit, s, mean, target)
  s.probes = s.probes + 1
  if s.probes < PROBES then return end
  if mean > target then
    local cut = floor(s.live * 1000 / s.marked)
    if cut < 800 and 2 * floor(mean_x(s) * 1000 / s.marked_x) < 1000 + cut then
      s.live, s.why = s.marked, SLOWER
      s.extra = max(s.extra, floor(mean * 3 / 2) - limit.tg)
    elseif s.probes <= LAST_PROBE then
      return
    end
  end
  s.marked, s.marked_x, s.marked_us, s.probes = 0, 0, 0, 0
end

local function close(limit, s)
  local before, mean, target = s.live, 0, limit.tg + s.extra
  if s.answers > 0 then
    mean = floor(s.total / s.answers)
    s.x1, s.x2, s.x3 = min(X_MAX, floor(s.answers * 1000 / s.span)), s.x1, s.x2
  end
  adjust(limit, s, mean, target)
  if s.marked > 0 and s.answers > 0 then guard(limit, s, mean, target) end
  if s.live ~= before then s.changed = s.first + s.span end
end

local function roll(limit, s, window)
  local ended = s.first + max(1, s.span)
  if window < ended then
    if s.first - window > LONGEST then restart(s, window) end -- the clock went back
    return
  end
  local count = s.answers + s.drops
  if count >= (s.marked > 0 and 1 or SAMPLES) then
    forget_extra(s, s.span)
    close(limit, s)
    forget_extra(s, window - ended)
  elseif count > 0 and window - s.first < LONGEST then
    return
  else
    forget_extra(s, window - s.first)
  end
  restart(s, window)
end

-- The numbers at this time: the window that is over, if one is, has changed the live limit. The state stays as it is.
local function rolled(limit, state, o, now)
  local s = {}
  for i = 1, #names do s[names[i]] = state[o + i - 1] end
  if s.live == 0 then s.live = limit.st * 1000 end
  roll(limit, s, floor(now / WINDOW))
  return s
end

local function put(s, out, o)
  for i = 1, #names do out[o + i - 1] = s[names[i]] end
end

function adaptive.decide(limit, state, o, now, cost, out, key, holder)
  limit.strayed = slots.strays(limit, key, now)
  local s, others = rolled(limit, state, o, now), slots.held(key, now, holder)
  local quota = floor(s.live / 1000)
  limit.hq = quota
  if others >= quota then
    for i = o, o + adaptive.width - 1 do out[i] = state[i] end
    return false, 0, 1000000, 0
  end
  s.peak = max(s.peak, others + 1)
  put(s, out, o)
  return true, quota - others - 1, 0, 0
end

-- Adds an answer that came `latency` µs after its request started, or a drop, to the state.
function adaptive.sample(limit, state, o, now, in_flight, latency, is_drop)
  local s = rolled(limit, state, o, now)
  s.peak = max(s.peak, in_flight)
  if is_drop then
    s.drops = s.drops + 1
  else
    s.answers, s.total = s.answers + 1, s.total + latency
  end
  s.span = max(s.span, 1, floor(now / WINDOW) - s.first + 1)
  put(s, state, o)
end

local REASONS = {
  [0] = 'at its start',
  'raised: answers are within the target',
  'lowered: answers are slower than the target',
  'lowered: the service refused or timed out',
  'service slower than its target',
}

-- Live limit, its bounds, the reason, the target in force, and when it last changed (0: never).
function adaptive.live(limit, state, o, now)
  local s = rolled(limit, state, o, now)
  local why = s.extra * 10 > limit.tg and SLOWER or s.why
  return floor(s.live / 1000), limit.lo, limit.n, REASONS[why], limit.tg + s.extra, s.changed * WINDOW
end

-- A change of parameters keeps the live limit, within the new bounds. Without one, the limit starts anew.
function adaptive.used(limit, state, o) return state[o] / 1000 end

function adaptive.with_used(limit, used, at, out, o)
  for i = o, o + adaptive.width - 1 do out[i] = 0 end
  if used > 0 then out[o] = min(max(floor(used * 1000), limit.lo * 1000), limit.n * 1000) end
end

H.kinds.a = adaptive
