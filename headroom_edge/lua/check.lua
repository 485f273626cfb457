-- hr_check: one decision over all limits of a tenant's plan, and its accounting.
-- KEYS[1]  the shard's prefix, hr:{crc32(tenant) mod shards}
-- ARGV     tenant, endpoint, cost (a whole number, or * for the endpoint's default), [ALL], [dimension, value]...
--          The pair priority, critical|high|normal|sheddable lowers the endpoint's priority for this request
-- reply    allowed 1/0, reason, limit, quota, remaining, reset_us, retry_us (-1: never), wait_us, revision,
--          holder, receipt (only with ALL), failure mode; with ALL also one row per limit: name, allowed 1/0,
--          quota, window_s, remaining, reset_us, retry_us, wait_us, mode, unit, subject, scope. The
--          mode is e; e/ceiling, e/share or e/pool if a limit that borrows denies, with the cause
--          In a cluster, global limits are counted at hr:{all} as the plans of the tenant `*`: a plan that has some is
--          refused with the reason `global` and nothing is counted, unless the pair GLOBAL, paid says that the caller was
--          allowed there
-- reads    token, tenant entry, every record and the factors of limits that adapt, and whether all other keys that it
--          writes are here, before the first write (reach.lua)
-- writes   the records (with TTL) if all enforced limits admit; the accounting in any case.
--          A denied request changes no enforced limit's state. Lists of samples and denials only if they are here

local decision, record, plans, account = H.decision, H.record, H.plans, H.account
local locate, arguments, records_of, count_usage = H.locate, H.arguments, H.records, H.account.count
local reset_at = H.kinds.t.reset_at
local judge, settle, answer = H.decision.judge, H.decision.settle, H.decision.answer
local pass_chain, learn = H.chains.pass, H.chains.learn
local EMPTY = {}

-- Reads the token and all records with one MGET, before anything is written. It fails unless every key is here.
local function read(shard, header, plan, records)
  local count = #records
  if plan.reads_more then
    records[count + 1] = plan.scaled and header.factors_key or header.touched_key
    records[count + 2] = plan.scaled and plan.calendars and header.touched_key or nil
    local values = call('MGET', shard, header.usage_key, unpack_(records))
    records[count + 1], records[count + 2] = nil, nil
    return values
  end
  if count == 1 then return call('MGET', shard, header.usage_key, records[1]) end
  return call('MGET', shard, header.usage_key, unpack_(records))
end

local seen, kept, fresh = {}, {}, {} -- numbers of a record before and after the request, and the new records

-- The common case in one loop: all limits are enforced and kept in records, and all of them admit.
-- Otherwise it returns nil without having written anything, and the general path decides.
-- Bucket decisions are inlined from bucket.lua: a function call for each would cost 50 % more.
local function pass(shard, header, number, endpoint, plan, records, values, cost, now)
  local groups, longest = plan.g, 0
  local left, tightest, backlog_left, reset
  for i = 1, #groups do
    local group, text = groups[i], values[i + 2]
    local head, state, numbers = nil, seen, group.numbers
    if not text then
      if group.d then return nil end -- a new subject
      head, state = group.plain, group.zeros
    else
      head = sub(text, 1, group.last)
      if head ~= group.plain and head ~= group.marked or #text ~= group.size then return nil end
      if numbers == 2 then
        seen[1], seen[2] = unpack_struct(group.format, text, group.start)
      elseif numbers <= 8 then
        seen[1], seen[2], seen[3], seen[4], seen[5], seen[6], seen[7], seen[8] =
          unpack_struct(group.format, text, group.start)
      else
        state = { unpack_struct(group.format, text, group.start) }
      end
    end
    local limits = group.l
    for j = 1, #limits do
      local limit = limits[j]
      local o, P, amount = limit.o, limit.inline, limit.u or cost
      local remaining
      if P then
        local Q, tat, after = limit.Q, state[o], amount * P
        local wait = 0
        if tat >= now then
          local backlog = (tat - now) * Q + state[o + 1]
          after = backlog + after
          if limit.shapes then wait = ceil(backlog / Q) end
        end
        if after > limit.most or amount > limit.n then return nil end
        local rest, room = after % Q, limit.full - after
        kept[o], kept[o + 1] = now + (after - rest) / Q, rest
        remaining = room > 0 and (room - room % P) / P or 0
        if room < 0 and not limit.shapes then wait = ceil(-room / Q) end
        if wait > longest then longest = wait end
        if not left or remaining < left then left, tightest, backlog_left = remaining, limit, after end
      else
        local ok, _, wait
        ok, remaining, _, wait = limit.decide(limit, state, o, now, amount, kept)
        if not ok or state.mended then
          state.mended = nil
          return nil
        end
        if wait > longest then longest = wait end
        if not left or remaining < left then
          left, tightest, backlog_left = remaining, limit, nil
          reset = limit.kernel.reset(limit, kept, o, now)
        end
      end
    end
    if numbers == 2 then
      fresh[i] = pack(group.whole, head, kept[1], kept[2])
    else
      fresh[i] = pack(group.whole, head, unpack_(kept, 1, numbers))
    end
  end
  for i = 1, #groups do call('SET', records[i], fresh[i], 'PX', groups[i].ttl) end
  if plan.calendars then
    for i = 1, #groups do
      if groups[i].calendar then record.touch(records[i]) end
    end
  end
  count_usage(shard, header.usage_key, now, number, endpoint, 'a', cost)
  local sampled = plan.sampled
  if sampled and record.is_sampled(fresh[sampled]) then
    account.arrival(shard, number .. endpoint, records[sampled], now, cost, 'a')
  end
  return {
    1, 'ok', tightest.name, tightest.hq, left, backlog_left and reset_at(tightest, backlog_left) or reset,
    0, longest, header.revision, '', EMPTY, plan.f,
  }
end

local states, outs, heads = H.decision.states, H.decision.outs, H.decision.heads

-- The states of the records of a plan with chains; nil unless all of them have the plan's header.
local function open_states(groups, values)
  for i = 1, #groups do
    local group, text = groups[i], values[i + 2]
    if text then
      local head = sub(text, 1, group.last)
      if head ~= group.plain and head ~= group.marked or #text ~= group.size then return nil end
      heads[i], states[i] = head, { unpack_struct(group.format, text, group.start) }
    else
      if group.d then return nil end -- a new subject
      heads[i], states[i] = nil, record.fresh(group)
    end
    outs[i] = states[i]
  end
  return true
end

-- The same for plans with chains. The states are charged in place: the general path reads them again.
local function pass_chains(shard, header, number, endpoint, plan, records, values, cost, now, class)
  local groups, plan_chains, plain = plan.g, plan.chains, plan.unchained
  local left, tightest, longest, reset = nil, nil, 0, nil
  if not open_states(groups, values) then return nil end
  for n = 1, #plain do
    local limit = plain[n]
    local state, o = states[limit.i], limit.o
    local ok, remaining, _, wait = limit.decide(limit, state, o, now, limit.u or cost, state)
    if not ok or state.mended then return nil end
    if wait > longest then longest = wait end
    if not left or remaining < left then
      left, tightest, reset = remaining, limit, limit.kernel.reset(limit, state, o, now)
    end
  end
  for c = 1, #plan_chains do
    local chain = plan_chains[c]
    local remaining, more = pass_chain(chain, records, cost, now, class)
    if not remaining then return nil end
    if not left or remaining < left then left, tightest, reset = remaining, chain.leaf, more end
  end
  for i = 1, #groups do
    local group = groups[i]
    heads[i] = heads[i] or group.plain
    call('SET', records[i], pack(group.whole, heads[i], unpack_(states[i], 1, group.numbers)), 'PX', group.ttl)
    if group.calendar then record.touch(records[i]) end
  end
  for c = 1, #plan_chains do learn(plan_chains[c], cost) end
  count_usage(shard, header.usage_key, now, number, endpoint, decision.lent_by(plan) or 'a', cost)
  local sampled = plan.sampled
  if sampled and heads[sampled] == groups[sampled].marked then
    account.arrival(shard, number .. endpoint, records[sampled], now, cost, 'a')
  end
  return { 1, 'ok', tightest.name, tightest.hq, left, reset, 0, longest, header.revision, '', EMPTY, plan.f }
end

local function check(call_keys, args, now, dry)
  local tenant, endpoint = args[1], args[2]
  local cost, problem, first, rows = arguments(args, 3, 3)
  if not cost then return problem end
  local shard, header, number, plan, endpoint_number, default, reason
  local dimensions, records, values
  for try = 1, 2 do
    shard, header, number, plan, endpoint_number, default, reason, problem = locate(call_keys[1], tenant, endpoint, now)
    if problem then return problem end
    if reason then return decision.turned_away(shard, header, number, reason, now, dry) end
    dimensions = plan.needs_dimensions and H.dimensions(args, first) or nil
    records = records_of(shard, number, plan, dimensions)
    values = read(shard, header, plan, records)
    if values[1] == header.token then break end
    -- The cached header is stale: read it again, once.
    plans.drop(shard)
    if try == 2 then return decision.refused('not_ready') end
  end
  if plan.G and dimensions.GLOBAL ~= 'paid' then return decision.refused('global', header.revision) end
  if cost == '*' then cost = default end
  local class
  if plan.chains then
    class, problem = H.priority_of(plan, dimensions)
    if not class then return problem end
  end
  if plan.beside then decision.prove_beside(shard, plan, records) end
  if plan.scaled then H.adapt.read(plan, values[#records + 3], now) end
  if plan.simple and not rows and not dry and not header.bypass then
    local quick = pass(shard, header, number, endpoint_number, plan, records, values, cost, now)
    if quick then return quick end
  elseif plan.shares and not rows and not dry and not header.bypass then
    local quick = pass_chains(shard, header, number, endpoint_number, plan, records, values, cost, now, class)
    if quick then return quick end
  end
  local newcomers = dimensions and H.newcomers.admit(shard, header, number, plan, records, values, dimensions, now)
  local holder = decision.holder_of(plan, dimensions, now)
  local switched = header.bypass and decision.bypassed(header, tenant, endpoint, now)
  judge(plan, records, values, cost, now, holder, switched, class)
  local why = decision.reason(newcomers and newcomers.overflow)
  if not dry then
    settle(shard, header, number, endpoint_number, plan, records, newcomers, why, cost, now, holder)
  end
  return answer(plan, header.revision, why, cost, now, holder, rows, dry)
end

H.define('check', {}, check)

-- hr_peek: same arguments and reply as hr_check; charges, counts and writes nothing.
H.define('peek', { 'no-writes' }, function(call_keys, args, now) return check(call_keys, args, now, true) end)
