-- Kernels of pool (p) and borrowing (b), and the judgement of a chain: a leaf, what it borrows from, up to the pool.
-- A chain is judged as one unit (headroom_edge/algorithms/chain.py says how, and computes the same doubles in the same
-- order). Its leaf speaks for it: the limits above always admit.
-- Parameters: aP/aQ = microseconds per unit of its own share, an = burst, rs = reserve; of b also w = weight, and
-- cP/cQ, cn of its ceiling.
-- State of p: TAT and fraction; α (a double) and its epoch. Of b: TAT and fraction of its own share, the same of its
-- ceiling, its fair TAT; α and its epoch.
-- α only steers who may borrow, no bound depends on it. What it needs to know of an epoch is kept in the library's memory,
-- because a refusal writes nothing: to lose it costs some fairness.
local chains = {}
H.chains = chains

local EPOCH, EPOCHS_KEPT = 100000, 10
local AHEAD, FAIR_MOST, EASY_MOST = 50000, 60000000, 100000
local FILLS = { 100, 90, 75, 50 } -- percent of what is lent, by priority (headroom_edge/plan/priority.py)
local USUAL = 3
local MOST_TALLIES = 4096
local LONG_AGO = -2

local bucket = H.kinds.t
local states, outs, heads -- of the call (decision.lua)

function chains.share(call_states, call_outs, call_heads) states, outs, heads = call_states, call_outs, call_heads end

-- What bucket.lua needs to know of a bucket.
local function bucket_of(P, Q, n)
  if not P then return nil end
  local one = { k = 't', P = P, Q = Q, n = n }
  bucket.prepare(one)
  return one
end

local function prepare(limit)
  limit.rate, limit.ceiling = bucket_of(limit.aP, limit.aQ, limit.an), bucket_of(limit.cP, limit.cQ, limit.cn)
  if not limit.rate then return end
  limit.per_s = limit.aQ * 1000000 / limit.aP
  limit.lends = {}
  local most = limit.an - limit.rs
  for class, fill in ipairs(FILLS) do -- in two parts, because the product may be above 2^53
    limit.lends[class] = (most - most % 100) / 100 * fill + ceil(most % 100 * fill / 100)
  end
end

-- Both buckets keep what is used of them; a bucket that only one of the two has starts full.
local function carry_bucket(before, after, current, offset, at, mode, out, o)
  out[o], out[o + 1] = 0, 0
  if not before or not after then return end
  local used = bucket.used(before, current, offset, at)
  if mode == 'proportional' then used = used * after.n / before.n end
  bucket.with_used(after, min(used, after.n), at, out, o)
end

local pool = { format = 'I7I4dI5', compact = 'I7BdI5', width = 4, prepare = prepare }
local share = { format = 'I7I4I7I4I7dI5', compact = 'I7BI7BI7dI5', width = 7, prepare = prepare }

function pool.fits(limit) return limit.aQ <= 256 end
function share.fits(limit) return (limit.aQ or 1) <= 256 and (limit.cQ or 1) <= 256 end

function pool.carry(before, after, current, offset, at, out, o)
  carry_bucket(before.rate, after.rate, current, offset, at, after.cm, out, o)
  out[o + 2], out[o + 3] = 0, 0
end

function share.carry(before, after, current, offset, at, out, o)
  carry_bucket(before.rate, after.rate, current, offset, at, after.cm, out, o)
  carry_bucket(before.ceiling, after.ceiling, current, offset + 2, at, after.cm, out, o + 2)
  out[o + 4], out[o + 5], out[o + 6] = 0, 0, 0
end

-- Called once per decoded plan. `ch` has the places of each chain's limits, leaf first.
function chains.prepare(plan)
  if not plan.ch then return end
  plan.chains = {}
  local at = 1 -- in a receipt, behind the TATs of the buckets
  for _, group in ipairs(plan.g) do at = at + group.tats end
  for c, places in ipairs(plan.ch) do
    local chain = { nodes = {}, charged_from = 0 }
    for n, place in ipairs(places) do
      local limit = plan.g[place[1]].l[place[2]]
      limit.chain = chain
      limit.alpha_at = limit.k == 'p' and 2 or 5
      limit.tally_tag = ':' .. limit.id .. ':' .. format('%d', limit.h)
      limit.receipt_at = at
      at = at + (limit.k == 'p' and 1 or 3)
      limit.lent = 'l' .. limit.id -- the outcome of a request that it lent to
      chain.nodes[n] = limit
    end
    chain.leaf = chain.nodes[1]
    chain.first_lender = chain.leaf.k == 'p' and 1 or 2 -- a pool that is asked itself lends to everybody
    plan.chains[c] = chain
  end
  plan.unchained = {}
  for _, group in ipairs(plan.g) do
    for _, limit in ipairs(group.l) do
      if not limit.chain and not limit.x then plan.unchained[#plan.unchained + 1] = limit end
    end
  end
end

local function backlog_of(one, state, o, now)
  local tat = state[o]
  if tat < now then return 0 end
  local backlog = (tat - now) * one.Q + state[o + 1]
  if backlog <= one.most then return backlog end
  -- The clock went back: nobody waits longer than one full refill from here on.
  local rest = one.most % one.Q
  state[o], state[o + 1], state.mended = now + (one.most - rest) / one.Q, rest, true
  return one.most
end

-- Further ahead than a loan can move it means that the clock went back: it starts anew.
local function fair_tat(limit, from, now)
  local tat = from[limit.i][limit.o + 4]
  return tat > now + FAIR_MOST and 0 or tat
end

-- 0 while the lender has refused nobody: then there is nobody to be fair to.
local function fair_wait(chain, n, now)
  if n == 1 or not chain.nodes[n].was_contended then return 0 end
  return max(0, fair_tat(chain.nodes[n - 1], states, now) - now - AHEAD)
end

-- Measures the buckets of a chain in `from` (states, or outs once it is charged).
local function measure(chain, from, now)
  local nodes = chain.nodes
  for n = 1, #nodes do
    local limit = nodes[n]
    local state, o = from[limit.i], limit.o
    if limit.rate then limit.backlog = backlog_of(limit.rate, state, o, now) end
    if limit.ceiling then limit.ceiling_backlog = backlog_of(limit.ceiling, state, o + 2, now) end
  end
end

-- Microseconds until a bucket with this backlog has room for `cost` below a level; -1: never.
local function wait_for(one, backlog, cost, units)
  if not one or cost > units then return -1 end
  return max(0, ceil((backlog + (cost - units) * one.P) / one.Q))
end

local function longest(one, other)
  if one < 0 or other < 0 then return -1 end
  return max(one, other)
end

local function shortest(one, other)
  if one < 0 then return other end
  if other < 0 then return one end
  return min(one, other)
end

local function ceilings_wait(chain, cost)
  local nodes, wait = chain.nodes, 0
  for n = 1, #nodes do
    local ceiling = nodes[n].ceiling
    if ceiling then wait = longest(wait, wait_for(ceiling, nodes[n].ceiling_backlog, cost, ceiling.n)) end
  end
  return wait
end

-- Until all limits from the n-th on have room for what is not lent by them.
local function whole_wait(chain, n, cost)
  local nodes, wait = chain.nodes, 0
  for m = n, #nodes do wait = longest(wait, wait_for(nodes[m].rate, nodes[m].backlog, cost, nodes[m].an)) end
  return wait
end

-- Until the n-th limit can lend, and all above it have room.
local function room_wait(chain, n, cost)
  local limit = chain.nodes[n]
  local wait = wait_for(limit.rate, limit.backlog, cost, limit.rate and limit.lends[chain.class] or 0)
  return longest(wait, whole_wait(chain, n + 1, cost))
end

-- How long a first refusal keeps the child of the n-th limit from borrowing: it counts for two epochs at most.
local function pause(chain, n, now)
  if n == 1 then return 0 end
  return max(0, min(fair_tat(chain.nodes[n - 1], states, now) - now - AHEAD, 2 * EPOCH - now % EPOCH))
end

-- A loan of a lender that has just refused somebody is counted on only if there is nothing else. After a denial for another
-- cause than a ceiling, every lender has.
local function retry_after(chain, cost, now)
  local likely, doubtful = -1, -1
  if chain.first_lender > 1 then likely = whole_wait(chain, 1, cost) end
  for n = chain.first_lender, #chain.nodes do
    local loan = longest(room_wait(chain, n, cost), fair_wait(chain, n, now))
    if chain.nodes[n].was_contended then
      doubtful = shortest(doubtful, loan)
    else
      likely = shortest(likely, chain.cause == 'ceiling' and loan or longest(loan, pause(chain, n, now)))
    end
  end
  return longest(ceilings_wait(chain, cost), likely < 0 and doubtful or likely)
end

-- µs until the leaf could have `units` at once, which it cannot now; 0 if it never can.
local function more_after(chain, from, units, now)
  local nodes, class, first_lender = chain.nodes, chain.class, chain.first_lender
  local above, least, ceilings = 0, nil, 0 -- waits; `above` is nil if a limit so far up can never have so much room
  for n = #nodes, 1, -1 do
    local limit = nodes[n]
    local rate, ceiling = limit.rate, limit.ceiling
    if rate and above then
      local P, Q, backlog = rate.P, rate.Q, limit.backlog
      if n >= first_lender and units <= limit.lends[class] then
        local wait = (backlog + (units - limit.lends[class]) * P) / Q
        if wait < above then wait = above end
        if n > 1 and limit.was_contended then
          local fair = fair_tat(nodes[n - 1], from, now) - now - AHEAD
          if wait < fair then wait = fair end
        end
        if not least or wait < least then least = wait end
      end
      local wait = (backlog + (units - rate.n) * P) / Q
      if units > rate.n then above = nil elseif wait > above then above = wait end
    else
      above = nil
    end
    if ceiling then
      if units > ceiling.n then return 0 end
      local wait = (limit.ceiling_backlog + (units - ceiling.n) * ceiling.P) / ceiling.Q
      if wait > ceilings then ceilings = wait end
    end
  end
  if above and first_lender > 1 and (not least or above < least) then least = above end
  return least and ceil(max(least, ceilings)) or 0
end

-- How much the leaf could have at once now, of its own or as a loan, and µs until it could have more. After `measure`.
local function level_of_leaf(chain, from, now)
  local nodes, class, first_lender = chain.nodes, chain.class, chain.first_lender
  local best, above, below_ceilings = 0, huge, huge
  for n = #nodes, 1, -1 do
    local limit = nodes[n]
    local rate, ceiling = limit.rate, limit.ceiling
    if rate then
      local P, backlog = rate.P, limit.backlog
      local is_easy = n == 1 or not limit.was_contended
      if n >= first_lender and (is_easy or fair_tat(nodes[n - 1], from, now) <= now + AHEAD) then
        local room = limit.lends[class] * P - backlog
        local units = (room - room % P) / P
        if units > above then units = above end
        if units > best then best = units end
      end
      local room = rate.full - backlog
      local units = (room - room % P) / P
      if units < above then above = units end
    else
      above = 0
    end
    if ceiling then
      local room = ceiling.full - limit.ceiling_backlog
      local units = (room - room % ceiling.P) / ceiling.P
      if units < below_ceilings then below_ceilings = units end
    end
  end
  if first_lender > 1 and above > best then best = above end
  if below_ceilings < best then best = below_ceilings end
  return best, more_after(chain, from, best + 1, now)
end

-- What is left for a limit, and µs until there is more, in a state of the whole call.
local function level(limit, from, now)
  local chain = limit.chain
  if limit == chain.leaf then
    measure(chain, from, now)
    return level_of_leaf(chain, from, now)
  end
  local one, o = limit.rate, limit.o
  if not one then one, o = limit.ceiling, o + 2 end
  if not one then return 0, 0 end
  local backlog = backlog_of(one, from[limit.i], o, now)
  local room = one.full - backlog
  return (room - room % one.P) / one.P, bucket.reset_at(one, backlog)
end

-- Called only if nothing was charged.
local function left(limit, _, _, now) return (level(limit, states, now)) end

local function reset(limit, state, _, now)
  local _, reset_us = level(limit, state == outs[limit.i] and outs or states, now)
  return reset_us
end

pool.left, share.left, pool.reset, share.reset = left, left, reset, reset

local tallies, tally_count = {}, 0

-- By how much a loan of the n-th limit moves the fair TAT of the child below it: its new value. What was borrowed while
-- nobody was refused is soon forgiven.
local function moved_fair_tat(chain, n, fair, cost, now)
  local lender, below = chain.nodes[n], chain.nodes[n - 1]
  local most = now + (lender.was_contended and FAIR_MOST or EASY_MOST)
  return max(fair, min(fair + floor(cost * 1000000 / (below.w * lender.alpha)), most))
end

-- α of a lender as of now. `weight` is that of the child that asks. Keeps in the limit what `learn` needs.
local function roll(limit, weight, record_key, now)
  local state, at, key = states[limit.i], limit.o + limit.alpha_at, record_key .. limit.tally_tag
  local alpha, epoch, present = state[at], state[at + 1], (now - now % EPOCH) / EPOCH
  local tally = heads[limit.i] and tallies[key]
  if tally and tally.epoch >= epoch then alpha, epoch = tally.alpha, tally.epoch else tally = nil end
  limit.was_contended = tally and epoch <= present and present - tally.refused_in <= 1
  if present > epoch then
    local per_s = limit.per_s
    local most = per_s / (tally and tally.least > 0 and tally.least or weight)
    if present - epoch > EPOCHS_KEPT then
      alpha = most
    else
      local factor = 2
      if tally and tally.refused > 0 then
        local room = max(1, per_s * 0.1 - tally.own)
        factor = min(2, max(0.5, room / max(1, tally.passed)))
      end
      alpha = max(per_s * 1e-9, min(most, alpha * factor))
    end
  end
  limit.alpha, limit.epoch, limit.tally, limit.tally_key = alpha, present, tally, key
end

-- The tally of a lender in the present epoch.
local function open_tally(limit)
  local tally, present = limit.tally, limit.epoch
  if tally and tally.epoch == present then return tally end
  local refused_in = tally and tally.epoch < present and tally.refused_in or LONG_AGO
  local key = limit.tally_key
  if not tallies[key] then
    if tally_count >= MOST_TALLIES then tallies, tally_count = {}, 0 end
    tally_count = tally_count + 1
  end
  tally = { epoch = present, alpha = limit.alpha, own = 0, passed = 0, refused = 0, least = 0, refused_in = refused_in }
  tallies[key], limit.tally = tally, tally
  return tally
end

local function note_weight(tally, weight)
  if tally.least == 0 or weight < tally.least then tally.least = weight end
end

-- What the lenders learn from a request that was charged, or that its chain denied. Of one that asks for more than can ever
-- be lent they learn nothing: to make room for it, they would pace everybody down to nothing.
function chains.learn(chain, cost)
  local nodes = chain.nodes
  if chain.cause == 'ceiling' then return end
  cost = chain.leaf.u or cost
  for n = chain.first_lender, #nodes do
    local limit = nodes[n]
    if limit.rate then
      local is_lender, below = n == chain.lender, n > 1 and nodes[n - 1]
      if chain.ok and n >= chain.charged_from then
        local tally = open_tally(limit)
        if is_lender and below then
          tally.passed = tally.passed + cost
          note_weight(tally, below.w)
        else
          tally.own = tally.own + cost
        end
      elseif room_wait(chain, n, cost) >= 0 then -- it was asked, and could not lend
        local tally = open_tally(limit)
        if below then
          if limit.was_fair then tally.passed = tally.passed + cost end
          note_weight(tally, below.w)
        end
        tally.refused, tally.refused_in = tally.refused + 1, limit.epoch
      end
    end
  end
end

local function charge_bucket(one, backlog, amount, now, out, o)
  local after = backlog + amount * one.P
  local rest = after % one.Q
  out[o], out[o + 1] = now + (after - rest) / one.Q, rest
end

-- Charges the buckets from `from` on, and all ceilings, in `outs`.
local function charge(chain, from, cost, now)
  local nodes, lender = chain.nodes, chain.lender
  chain.charged_from = from
  for n = 1, #nodes do
    local limit = nodes[n]
    local out, o = outs[limit.i], limit.o
    if limit.ceiling then charge_bucket(limit.ceiling, limit.ceiling_backlog, cost, now, out, o + 2) end
    if limit.rate and n >= from then
      charge_bucket(limit.rate, limit.backlog, cost, now, out, o)
      if n >= chain.first_lender then
        out[o + limit.alpha_at], out[o + limit.alpha_at + 1] = limit.alpha, limit.epoch
      end
    end
    if lender == n + 1 then
      local start = max(fair_tat(limit, states, now), now)
      out[o + 4] = moved_fair_tat(chain, lender, start, cost, now)
      chain.fair_us = out[o + 4] - start
    end
  end
end

local function copy_states(chain)
  for n = 1, #chain.nodes do
    local limit = chain.nodes[n]
    local state, out = states[limit.i], outs[limit.i]
    for k = limit.o, limit.o + limit.kernel.width - 1 do out[k] = state[k] end
  end
end

-- Finds who pays: sets chain.ok, and chain.cause or chain.lender; charges `outs`.
local function rule(chain, cost, now)
  if ceilings_wait(chain, cost) ~= 0 then
    chain.cause = 'ceiling'
    return
  end
  if chain.first_lender > 1 and whole_wait(chain, 1, cost) == 0 then
    chain.ok = true
    return charge(chain, 1, cost, now)
  end
  chain.cause = 'pool'
  for n = chain.first_lender, #chain.nodes do
    local limit = chain.nodes[n]
    if limit.rate then
      limit.was_fair = fair_wait(chain, n, now) == 0
      if limit.was_fair and room_wait(chain, n, cost) == 0 then
        chain.ok, chain.cause, chain.lender = true, '', n
        return charge(chain, n, cost, now)
      end
      if not limit.was_fair then chain.cause = 'share' end
    end
  end
end

-- Judges a chain. The verdicts are kept in its limits, as those of other limits are.
function chains.judge(chain, records, cost, now, class)
  local nodes, leaf = chain.nodes, chain.leaf
  cost = leaf.u or cost
  chain.class, chain.ok, chain.cause, chain.lender, chain.fair_us = class or USUAL, false, '', nil, 0
  copy_states(chain)
  measure(chain, states, now)
  for n = chain.first_lender, #nodes do
    local limit = nodes[n]
    if limit.rate then roll(limit, n > 1 and nodes[n - 1].w or 1, records[limit.i], now) end
  end
  rule(chain, cost, now)
  leaf.retry = chain.ok and 0 or retry_after(chain, cost, now)
  leaf.ok = chain.ok
  for n = 1, #nodes do
    local limit = nodes[n]
    limit.wait = 0
    if n > 1 then limit.ok, limit.retry = true, 0 end
    limit.remaining = level(limit, chain.ok and outs or states, now)
  end
end

-- α of a lender as of now, in the common case that it has a tally of this epoch.
local function quick_roll(limit, weight, record_key, now, present)
  local i = limit.i
  local key = record_key .. limit.tally_tag
  local tally = heads[i] and tallies[key]
  if tally and tally.epoch == present and states[i][limit.o + limit.alpha_at + 1] <= present then
    limit.alpha, limit.epoch, limit.tally = tally.alpha, present, tally
    limit.was_contended = present - tally.refused_in <= 1
  else
    roll(limit, weight, record_key, now)
  end
end

-- The common case: a chain that admits. Charges `outs` (which may be the states themselves) and returns what is left for
-- the leaf, and µs until there is more. Otherwise it returns nil, having changed nothing that the general path reads.
-- Inlined from `measure`, `rule` and `charge`, with limit.backlog as it is after the charge.
function chains.pass(chain, records, cost, now, class)
  local nodes, first_lender = chain.nodes, chain.first_lender
  local count, misfit = #nodes, 0 -- the highest limit that has no room for what it does not lend
  local present = (now - now % EPOCH) / EPOCH
  cost = chain.leaf.u or cost
  for n = 1, count do
    local limit = nodes[n]
    local state, o, rate, ceiling = states[limit.i], limit.o, limit.rate, limit.ceiling
    if rate then
      local tat, after = state[o], cost * rate.P
      if tat >= now then
        local backlog = (tat - now) * rate.Q + state[o + 1]
        if backlog > rate.full then return nil end -- the clock went back
        after = backlog + after
      end
      if after > rate.full then misfit = n end
      limit.backlog = after
    else
      misfit = n
    end
    if ceiling then
      local tat, after = state[o + 2], cost * ceiling.P
      if tat >= now then after = (tat - now) * ceiling.Q + state[o + 3] + after end
      if after > ceiling.full then return nil end
      limit.ceiling_backlog = after
    end
  end
  local from, lender
  if misfit == 0 and first_lender == 2 then
    from = 1
  else
    for n = first_lender, count do
      local limit = nodes[n]
      local rate = limit.rate
      if rate then
        local below = nodes[n - 1]
        local fair = below and states[below.i][below.o + 4] or 0
        limit.was_fair = fair <= now + AHEAD or fair > now + FAIR_MOST
        if not limit.was_fair then
          quick_roll(limit, below.w, records[limit.i], now, present)
          limit.was_fair = not limit.was_contended
        end
        if limit.was_fair and misfit <= n and limit.backlog <= limit.lends[class] * rate.P then
          from, lender = n, n
          break
        end
      end
    end
    if not from then return nil end
  end
  for n = 1, count do
    local limit = nodes[n]
    local out, o, rate, ceiling = outs[limit.i], limit.o, limit.rate, limit.ceiling
    if rate and n >= first_lender then
      quick_roll(limit, n > 1 and nodes[n - 1].w or 1, records[limit.i], now, present)
    end
    if ceiling then
      local after = limit.ceiling_backlog
      local rest = after % ceiling.Q
      out[o + 2], out[o + 3] = now + (after - rest) / ceiling.Q, rest
    end
    if rate then
      if n >= from then
        local after = limit.backlog
        local rest = after % rate.Q
        out[o], out[o + 1] = now + (after - rest) / rate.Q, rest
        if n >= first_lender then
          local at = o + limit.alpha_at
          out[at], out[at + 1] = limit.alpha, present
        end
      else
        limit.backlog = limit.backlog - cost * rate.P -- it is not charged
      end
    end
  end
  if lender and lender > 1 then
    local below = nodes[lender - 1]
    local out, at = outs[below.i], below.o + 4
    local fair = out[at]
    if fair < now or fair > now + FAIR_MOST then fair = now end
    out[at] = moved_fair_tat(chain, lender, fair, cost, now)
  end
  chain.class, chain.ok, chain.cause, chain.lender, chain.charged_from = class, true, '', lender, from
  return level_of_leaf(chain, outs, now)
end

-- Adds what a refund needs to a receipt: of every limit the TAT of its bucket; of a borrowing one also its ceiling's,
-- and by how much its fair TAT moved. 0 where nothing was charged.
function chains.add_to(receipt, chain)
  for n = 1, #chain.nodes do
    local limit = chain.nodes[n]
    local out, o = outs[limit.i], limit.o
    receipt[#receipt + 1] = chain.ok and limit.rate and n >= chain.charged_from and out[o] or 0
    if limit.k == 'b' then
      receipt[#receipt + 1] = chain.ok and limit.ceiling and out[o + 2] or 0
      receipt[#receipt + 1] = chain.lender == n + 1 and chain.fair_us or 0
    end
  end
end

-- Gives back what a receipt's numbers name, as far as it is still charged. `end_of` tells where a charge ends by now.
-- Returns whether anything was.
function chains.refund(limit, state, now, cost, given, numbers, end_of)
  local o, at, is_changed = limit.o, limit.receipt_at, false
  local rate, ceiling = limit.rate, limit.ceiling
  if rate and bucket.refund(rate, state, o, now, cost, given, end_of(limit, o, numbers[at])) then is_changed = true end
  if ceiling and bucket.refund(ceiling, state, o + 2, now, cost, given, end_of(limit, o + 2, numbers[at + 1])) then
    is_changed = true
  end
  local fair_us = limit.k == 'b' and numbers[at + 2] or 0
  if fair_us > 0 and state[o + 4] > now then
    state[o + 4] = max(now, state[o + 4] - fair_us)
    is_changed = true
  end
  return is_changed
end

H.kinds.p, H.kinds.b = pool, share
