-- The loops behind limits that adapt: each turns the health of one endpoint into a factor, in 1/1000 of the limit. Part of
-- hr_observe, no function of its own.
-- reads    hr:{all}:l, a hash that the publisher writes: endpoint → `[[loop, rate, slow, errors, floor, ceiling], …]`. `rate`:
--          requests per second of the limit if all traffic shares one counter, otherwise 0; `slow`: the last bucket of a
--          histogram that is fast enough; `errors`, `floor` and `ceiling` in 1/1000
-- writes   hr:{all}:w, a hash with a TTL: loop → its state as JSON. The publisher copies the factors to every shard
--
-- An answer is bad if it is a 5xx or slow; a second is bad if clearly more than `errors` of its answers are. Drain, then
-- cruise: a bad second tells what the backend can answer. Cut to 0.7 of that, so that its queue drains, until a second is
-- good; go to 0.95 of it; creep up; and rise fast once well above the estimate or after a calm minute. The signal is late,
-- so only seconds that began after the last change are judged. A second that is bad already need not be complete: the
-- estimate is then what was answered before, and those that were complete only after the cut correct it.
local health = {}
H.health = health

local DRAIN, CRUISE, NEAR, FAR = 0.7, 0.95, 0.002, 0.04
local ABOVE = 1.15 -- of the estimate: it was too low
local BINDS = 0.98 -- of the limit: if less is answered, the backend is slower than the estimate
local ROUNDS = 2 -- bad ones of a drain, until the estimate is cut: the limit may not be what holds the traffic back
local CALM_S = 60
local SETTLED_US = 1250000 -- processes report once a second, so a second is complete this long after its end
local APPLIED_S = 1 -- a factor reaches the shards within this time
local FEWEST, LONGEST_S = 10, 5 -- answers that are judged together, and for how long to wait for so many
local DEAD_US = 10000000 -- without an answer for so long, a factor ends
local STATES_TTL = 60000
-- A call blocks the server, so it steps only so many loops. An edit with more for one endpoint is refused
-- (quotas/changes/loops.py). What a call says of too many endpoints is counted for some of them, the next call's for the
-- next ones.
local MOST_LOOPS, MOST_AT_ONCE = 32, 256
local LAST_BUCKET = 722 -- of observations.py; a caller that makes up others must not make every loop longer
local turn = 0

local function new_state()
  return {
    f = 1, mode = 'free', since = 0, cut = 0, judged = 0, calm = 0, rounds = 0, usual = 0, served = 0, answers = 0, bad = 0,
    seconds = {},
  }
end

-- A state from the future is worth nothing: the clock went back.
local function state_of(text, now)
  local state = text and json_decode(text) or new_state()
  if state.judged > now / 1000000 then return new_state() end
  return state
end

-- Adds answers to the state's counts of that second: second, answers, bad ones, those that are no 5xx.
local function add(state, second, failed, counts, slow)
  if second <= state.judged then return end -- too late
  local cell
  for _, known in ipairs(state.seconds) do
    if known[1] == second then cell = known end
  end
  if not cell then
    cell = { second, 0, 0, 0 }
    state.seconds[#state.seconds + 1] = cell
  end
  for bucket, count in pairs(counts) do
    cell[2] = cell[2] + count
    if failed or bucket > slow then cell[3] = cell[3] + count end
    if not failed then cell[4] = cell[4] + count end
  end
end

-- More bad answers than `errors` allows by three standard deviations: few answers prove little.
local function is_bad(loop, answers, bad)
  local allowed = answers * loop.errors / 1000
  return answers >= FEWEST and bad > allowed + 3 * allowed ^ 0.5
end

-- What the backend answered, as a share of the limit. Without a rate of its own, the limit is what was usual in good times.
local function share_of(loop, state, served)
  local rate = loop.rate > 0 and loop.rate or state.usual
  return rate > 0 and served > 0 and served / rate or state.f
end

local function bounded(loop, f) return max(loop.floor / 1000, min(f, loop.ceiling / 1000)) end

-- `fails`: the backend still refuses requests, so its queue does not drain at all.
local function cut(loop, state, served, this, fails)
  local share = min(share_of(loop, state, served), state.f)
  if state.mode ~= 'drain' then
    state.estimate, state.rounds = share, 0
  elseif share < state.f * BINDS then
    state.estimate = min(state.estimate, share)
  else
    state.rounds = state.rounds + (fails and ROUNDS or 1)
    if state.rounds >= ROUNDS then state.estimate, state.rounds = state.estimate * DRAIN, 0 end
  end
  state.f, state.mode, state.calm = bounded(loop, DRAIN * state.estimate), 'drain', 0
  state.cut, state.since = this, this + APPLIED_S
end

-- A bad second that began before the cut was complete only after it.
local function correct(loop, state, served, this)
  local share = share_of(loop, state, served)
  if share >= state.estimate then return end
  state.estimate, state.f, state.since = share, bounded(loop, DRAIN * share), this + APPLIED_S
end

local function rise(loop, state, answered, passed_s)
  state.calm = state.calm + passed_s
  if state.mode == 'cruise' and (state.f > state.estimate * ABOVE or state.calm >= CALM_S) then state.mode = 'free' end
  if state.mode == 'free' then
    state.f = state.f + FAR * passed_s
  elseif loop.rate == 0 or answered >= 0.5 * state.f * loop.rate then
    state.f = state.f + NEAR * passed_s
  end
end

-- Counts of one or more seconds that are complete.
local function judge(loop, state, answers, bad, served, passed_s, this)
  local answered = answers / passed_s
  if is_bad(loop, answers, bad) then
    cut(loop, state, served / passed_s, this, is_bad(loop, answers, answers - served))
  elseif state.mode == 'drain' then
    state.f, state.mode, state.since = max(state.f, CRUISE * state.estimate), 'cruise', this + APPLIED_S
  else
    rise(loop, state, answered, passed_s)
    state.usual = max(answered / state.f, 0.9 * state.usual)
  end
  state.f = bounded(loop, state.f)
  state.answers, state.bad, state.served = answered, answers > 0 and bad / answers or 0, served / passed_s
end

-- Judges the seconds that are complete, in their order; few answers are judged together with those of the next seconds.
local function judge_complete(loop, state, now)
  local this = floor(now / 1000000)
  local last = floor((now - SETTLED_US) / 1000000) - 1
  local waiting, first, answers, bad, served = {}, nil, 0, 0, 0
  table.sort(state.seconds, function(a, b) return a[1] < b[1] end)
  for _, cell in ipairs(state.seconds) do
    local second = cell[1]
    if second > last then
      waiting[#waiting + 1] = cell
    elseif second <= state.since then
      state.judged = second
      if state.mode == 'drain' and second <= state.cut and is_bad(loop, cell[2], cell[3]) then correct(loop, state, cell[4], this) end
    else
      first = first or second
      answers, bad, served = answers + cell[2], bad + cell[3], served + cell[4]
      local passed_s = second - first + 1
      if answers >= FEWEST or passed_s >= LONGEST_S then
        judge(loop, state, answers, bad, served, passed_s, this)
        state.judged = second
        first, answers, bad, served = nil, 0, 0, 0
      end
    end
  end
  if first then waiting[#waiting + 1] = { first, answers, bad, served } end
  state.seconds = waiting
end

-- Cuts at once if a second that is not complete is bad already. While a queue drains, answers are slow for a time.
local function judge_early(loop, state, now)
  for _, cell in ipairs(state.seconds) do
    if cell[1] > state.since and state.mode ~= 'drain' and is_bad(loop, cell[2], cell[3]) then
      cut(loop, state, state.served, floor(now / 1000000))
      state.answers, state.bad = cell[2], cell[3] / cell[2]
    end
  end
end

local function loops_at(endpoints)
  local found = protected_call('HMGET', H.keys.loops(), unpack_(endpoints))
  local loops = {}
  if found.err then return loops end
  for i, endpoint in ipairs(endpoints) do
    local rows = found[i] and json_decode(found[i]) or {}
    for n = 1, min(#rows, MOST_LOOPS) do
      local row = rows[n]
      loops[#loops + 1] = {
        endpoint = endpoint, name = row[1], rate = row[2], slow = row[3], errors = row[4], floor = row[5], ceiling = row[6],
      }
    end
  end
  return loops
end

-- What was observed of each endpoint, and the endpoints in their order.
local function by_endpoint(observed)
  local endpoints, of = {}, {}
  for _, one in ipairs(observed) do
    local known = of[one.endpoint]
    if not known then
      known, endpoints[#endpoints + 1] = {}, one.endpoint
      of[one.endpoint] = known
    end
    known[#known + 1] = one
  end
  return endpoints, of
end

-- The answers of an endpoint, added up: { second, failed, bucket → count } for each second, with and without 5xx. Histograms
-- are read once, however many loops need them.
local function answers_of(observed)
  local answers, known = {}, {}
  for _, one in ipairs(observed) do
    local failed = one.class == '5'
    local name = one.second .. (failed and 'f' or '')
    local found = known[name]
    if not found then
      found = { second = one.second, failed = failed, counts = {} }
      known[name], answers[#answers + 1] = found, found
    end
    local counts = found.counts
    for bucket, count in gmatch(one.histogram, '(%d+):(%d+)') do
      bucket, count = min(tonumber_(bucket), LAST_BUCKET), tonumber_(count)
      if count > 0 then counts[bucket] = (counts[bucket] or 0) + count end
    end
  end
  return answers
end

local function step(loop, answers, now)
  local key, oldest = H.keys.loop_states(), (now - DEAD_US) / 1000000
  local state = state_of(call('HGET', key, loop.name), now)
  for _, one in ipairs(answers) do
    if one.second >= oldest and next(one.counts) then
      add(state, one.second, one.failed, one.counts, loop.slow)
      state.until_us = now + DEAD_US
    end
  end
  judge_complete(loop, state, now)
  judge_early(loop, state, now)
  call('HSET', key, loop.name, json_encode(state))
end

-- observed: a list of { second, class, histogram, endpoint }. Left out while a cluster moves the slot: the factors end by
-- themselves.
function health.observe(observed, now)
  local endpoints, of = by_endpoint(observed)
  local loops = loops_at(endpoints)
  if #loops == 0 or H.reach.is_moving(H.keys.ALL) then return end
  local answers = {}
  for n = 1, min(#loops, MOST_AT_ONCE) do
    local loop = loops[(turn + n - 1) % #loops + 1]
    answers[loop.endpoint] = answers[loop.endpoint] or answers_of(of[loop.endpoint])
    step(loop, answers[loop.endpoint], now)
  end
  turn = #loops > MOST_AT_ONCE and turn + MOST_AT_ONCE or 0
  call('PEXPIRE', H.keys.loop_states(), STATES_TTL)
end
