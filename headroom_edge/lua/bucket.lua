-- Kernel of token_bucket (t), gcra (g) and leaky_bucket (l).
-- Parameters: P/Q = microseconds per unit in lowest terms, n = burst or queue, mw = longest wait in µs.
-- State: TAT (theoretical arrival time) in whole µs, and a fraction 0 <= frac < Q of a µs. The "backlog" is the
-- time until the bucket is full again, in 1/Q µs.
-- decide(limit, state, offset, now, cost, out) returns admitted, remaining, retry_us (-1: never), wait_us.
-- It writes the new state to `out`: charged if admitted, unchanged otherwise. A state that is only possible after
-- the clock went backwards is repaired in `state` itself, and `state.mended` is set.
-- Validation keeps all products below 2^53, so floor and ceil of quotients are exact.
-- For leases (lease.lua), every kernel that can be leased has:
--   longest(limit)                   the longest lease in µs that the parameters allow; optional
--   rest(limit, out, o, now)         µs until the charged period is over; only if it has periods
--   room(limit, out, o, now, lasts)  how many units a block of that length could have
--   lease(limit, out, o, now, lasts, units, note)               charges a block; returns the number for its receipt
--   give_back(limit, state, o, now, units, number, key, note)   takes units of such a block out of `state`, as far as
--                                    that is safe; returns whether it changed anything
local bucket = { format = 'I7I4', compact = 'I7B', width = 2 }

function bucket.fits(limit) return limit.Q <= 256 end

function bucket.prepare(limit)
  limit.full = limit.n * limit.P
  limit.most = limit.full + (limit.mw or 0) * limit.Q
  limit.far = limit.most
  limit.shapes = limit.k == 'l'
  limit.inline = limit.P -- `pass` in check.lua decides it
  if limit.fa then H.adapt.prepare(limit) end
end

local function mend(limit, state, o, now)
  local far, Q = limit.far, limit.Q
  local rest = far % Q
  state[o], state[o + 1], state.mended = now + (far - rest) / Q, rest, true
  return far
end

local function backlog_of(limit, state, o, now)
  local tat = state[o]
  if tat < now then return 0 end
  local backlog = (tat - now) * limit.Q + state[o + 1]
  if backlog > limit.far then return mend(limit, state, o, now) end
  return backlog
end

bucket.backlog_of = backlog_of

-- Units left at this backlog. x - x % 1 is floor without a call.
local function level(limit, backlog)
  local left = limit.full - backlog
  if left <= 0 then return 0 end
  local P = limit.P
  return (left - left % P) / P
end

function bucket.decide(limit, state, o, now, cost, out)
  local P, Q, tat = limit.P, limit.Q, state[o]
  local backlog = 0
  if tat >= now then
    backlog = (tat - now) * Q + state[o + 1]
    if backlog > limit.most then backlog = mend(limit, state, o, now) end
  end
  local after = backlog + cost * P
  if after > limit.most or cost > limit.n then
    out[o], out[o + 1] = state[o], state[o + 1]
    if cost > limit.n then return false, level(limit, backlog), -1, 0 end
    return false, level(limit, backlog), ceil((after - limit.most) / Q), 0
  end
  local rest = after % Q
  out[o], out[o + 1] = now + (after - rest) / Q, rest
  local left = limit.full - after
  if limit.shapes then return true, (left - left % P) / P, 0, ceil(backlog / Q) end
  if left < 0 then return true, 0, 0, ceil(-left / Q) end
  return true, (left - left % P) / P, 0, 0
end

function bucket.left(limit, state, o, now)
  return level(limit, backlog_of(limit, state, o, now))
end

-- Microseconds until one more unit; 0 when full.
function bucket.reset_at(limit, backlog)
  local full, P = limit.full, limit.P
  if backlog >= full then return ceil((backlog - full + P) / limit.Q) end
  local left = level(limit, backlog)
  if left == limit.n then return 0 end
  return ceil((backlog - full + (left + 1) * P) / limit.Q)
end

function bucket.reset(limit, state, o, now)
  return bucket.reset_at(limit, backlog_of(limit, state, o, now))
end

function bucket.used(limit, state, o, at)
  if state[o] < at then return 0 end
  return ((state[o] - at) * limit.Q + state[o + 1]) / limit.P
end

function bucket.with_used(limit, used, at, out, o)
  out[o], out[o + 1] = at + ceil(used * limit.P / limit.Q), 0
end

-- Only as much as is left of the decision's own charge: the rest of its units has been refilled already. It ends at `tat`
-- (moved.lua; 0: nothing is left), rounded down. Whatever came before it, no more of it has flowed back than time has
-- passed since it was made. A bucket that was reset since has nothing to give back.
function bucket.take_back(limit, state, o, now, charge, given, tat)
  if tat == 0 or state[o] == 0 then return false end
  local Q = limit.Q
  local left = min(charge, max((tat - now) * Q, charge - (now - given) * Q))
  if left <= 0 then return false end
  local backlog = backlog_of(limit, state, o, now)
  if backlog == 0 then return false end
  local after = max(0, backlog - left)
  local rest = after % Q
  state[o], state[o + 1] = now + (after - rest) / Q, rest
  return true
end

function bucket.refund(limit, state, o, now, cost, given, tat)
  return bucket.take_back(limit, state, o, now, cost * limit.P, given, tat)
end

-- A longer lease would be charged for its length more than for its units.
function bucket.longest(limit) return floor(limit.full / limit.Q / 4) end

-- A block is charged as if all of it were spent at its end.
local function at_end(limit, out, o, now, lasts)
  return max(backlog_of(limit, out, o, now), lasts * limit.Q)
end

function bucket.room(limit, out, o, now, lasts)
  return level(limit, at_end(limit, out, o, now, lasts))
end

-- The number is the TAT plus what was given back so far: such a sum never decreases.
function bucket.lease(limit, out, o, now, lasts, units, note)
  local after = at_end(limit, out, o, now, lasts) + units * limit.P
  local rest = after % limit.Q
  out[o], out[o + 1] = now + (after - rest) / limit.Q, rest
  return out[o] + note.back[o]
end

-- Later charges lie on top of this block. Those of leases were only raised to their ends as far as this block did not
-- do that already, so what lies below the latest end stays charged (docs/adr/leases.md).
function bucket.give_back(limit, state, o, now, units, number, _, note)
  local Q, back = limit.Q, note.back[o]
  local backlog = backlog_of(limit, state, o, now)
  if state[o] + back < number then return false end -- the block is gone, by a step of the clock for example
  local above = (number - back - max(now, note.ends)) * Q
  local amount = min(units * limit.P, above, backlog)
  if amount <= 0 then return false end
  local after = backlog - amount
  local rest = after % Q
  state[o], state[o + 1] = now + (after - rest) / Q, rest
  note.back[o] = back + ceil(amount / Q)
  return true
end

H.kinds.t, H.kinds.g, H.kinds.l = bucket, bucket, bucket
