-- Kernel of buckets and meters that follow the health of their endpoint (`adapt`). No function of its own, writes nothing.
-- A limit's factor f, in 1/1000, scales the cost of a request, never the rate: a request is charged ceil(cost * P * 1000 / f).
-- So a new factor needs no new generation and carries nothing over. What the publisher copies to S:f is
-- `<loop> <factor> <until in ms> <mode>;` for each loop below its ceiling. Without one, or after its time, a limit has its
-- ceiling, which is the configured limit unless the policy says less: a dead signal cuts nothing.
-- A request whose scaled cost is above the burst passes a bucket that is full, and leaves a longer wait behind it: a meter
-- with a burst of 1 is spaced further apart, not shut. Whether a cost fits at all is judged unscaled.
-- `limit.f` is set by `read` before a decision, and by `recall` before a refund.
-- Row of such a limit: fa = { loop ('' if pinned), least factor, ceiling }.
local adapt = {}
H.adapt = adapt

local WHOLE = 1000
local scaled

local function charge_of(limit, cost) return ceil(cost * limit.P * WHOLE / limit.f) end

-- Called once for each limit of a plan that adapts.
function adapt.prepare(limit)
  limit.loop, limit.least, limit.ceiling = limit.fa[1], limit.fa[2], limit.fa[3]
  -- The largest backlog that a request can leave. More than that is only possible after the clock went backwards.
  limit.far = limit.most - limit.full + ceil(limit.n * limit.P * WHOLE / limit.least)
  limit.f = limit.ceiling
  limit.kernel, limit.decide = scaled, scaled.decide
  limit.inline = nil
end

local text_read, factors = '', {}

local function parse(text)
  local found = {}
  for loop, factor, until_ms, mode in gmatch(text, '(%x+) (%d+) (%d+) (%a+);') do
    found[loop] = { f = tonumber_(factor), until_us = tonumber_(until_ms) * 1000, mode = mode }
  end
  return found
end

-- The factor of a loop at this time and its mode; nil if there is none.
function adapt.find(text, loop, now)
  if not text then return nil end
  if text ~= text_read then factors, text_read = parse(text), text end
  local found = factors[loop]
  if not found or found.until_us <= now then return nil end
  return found.f, found.mode, found.until_us
end

-- Sets the factors of a plan's limits. `text` is the value of S:f.
function adapt.read(plan, text, now)
  local limits = plan.scaled
  for i = 1, #limits do
    local limit = limits[i]
    local f = adapt.find(text, limit.loop, now) or limit.ceiling
    limit.f = max(limit.least, min(f, limit.ceiling))
  end
end

function adapt.live(limit, text, now)
  local f, mode, until_us = adapt.find(text, limit.loop, now)
  f = max(limit.least, min(f or limit.ceiling, limit.ceiling))
  return f, limit.least, limit.ceiling, mode or (limit.loop == '' and 'pinned' or 'free'), 0, until_us or 0
end

-- A block of a lease is charged unscaled, so there is none while a factor is in force.
function adapt.is_cut(plan)
  local limits = plan.scaled
  for i = 1, limits and #limits or 0 do
    if limits[i].f < WHOLE then return true end
  end
  return false
end

-- The factors of a decision are the last numbers of its receipt.
function adapt.add_to(receipt, plan)
  for _, limit in ipairs(plan.scaled) do receipt[#receipt + 1] = limit.f end
end

function adapt.recall(plan, numbers)
  local at = #numbers - #plan.scaled
  for i, limit in ipairs(plan.scaled) do
    limit.f = max(limit.least, min(numbers[at + i] or WHOLE, WHOLE))
  end
end

local bucket = H.kinds.t
local backlog_of = bucket.backlog_of
scaled = {
  format = bucket.format, compact = bucket.compact, width = bucket.width, fits = bucket.fits, used = bucket.used,
  with_used = bucket.with_used, longest = bucket.longest, room = bucket.room, lease = bucket.lease,
  give_back = bucket.give_back,
}

-- Requests of cost 1 that pass at this backlog.
local function level(limit, backlog)
  local left, unit = limit.full - backlog, charge_of(limit, 1)
  if left < unit then return backlog == 0 and 1 or 0 end
  return (left - left % unit) / unit
end

function scaled.decide(limit, state, o, now, cost, out)
  local Q, full, most = limit.Q, limit.full, limit.most
  local backlog, charge = backlog_of(limit, state, o, now), charge_of(limit, cost)
  local needed = backlog + min(charge, full)
  if needed > most or cost > limit.n then
    out[o], out[o + 1] = state[o], state[o + 1]
    if cost > limit.n then return false, level(limit, backlog), -1, 0 end
    return false, level(limit, backlog), ceil((needed - most) / Q), 0
  end
  local after = backlog + charge
  local rest = after % Q
  out[o], out[o + 1] = now + (after - rest) / Q, rest
  return true, level(limit, after), 0, needed > full and ceil((needed - full) / Q) or 0
end

function scaled.left(limit, state, o, now) return level(limit, backlog_of(limit, state, o, now)) end

-- Microseconds until one more request of cost 1 passes; 0 when no more can pass at once.
function scaled.reset(limit, state, o, now)
  local backlog, unit, full = backlog_of(limit, state, o, now), charge_of(limit, 1), limit.full
  local left = level(limit, backlog)
  if left > 0 and (left + 1) * unit > full then return 0 end
  return ceil((backlog - max(0, full - (left + 1) * unit)) / limit.Q)
end

function scaled.refund(limit, state, o, now, cost, given, tat)
  return bucket.take_back(limit, state, o, now, charge_of(limit, cost), given, tat)
end
