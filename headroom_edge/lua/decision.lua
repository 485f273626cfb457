-- One decision over all limits of a plan, and its accounting: what hr_check and hr_lease share. No function of its own.
-- The order of a call: `judge` every limit, then `settle` (all writes), then `answer`. hr_lease adds a block between the
-- first two.
--
-- This is a hot path: few tables, few calls, no iterators. The results of a call are kept in the locals below and in
-- the limits themselves; every call overwrites them.
local decision = {}
H.decision = decision

local states, outs, heads, verdicts, count = {}, {}, {}, {}, 0
local wait_us, deniers = 0, 0
local denied, passed, least -- limits: the one named in a denial, one that a bypass let through, the tightest

local keys, record, account, chains = H.keys, H.record, H.account, H.chains

decision.states, decision.outs, decision.heads, decision.verdicts = states, outs, heads, verdicts
chains.share(states, outs, heads)

function decision.refused(reason, revision)
  return { 0, reason, '', 0, 0, 0, -1, 0, revision or 0, '', {}, '' }
end

-- Whether the caller's tenant is unknown and `name` is the tenant that stands in for unknown ones.
local function stands_for(header, name, tenant)
  local stands_in = header.unknown
  return stands_in and stands_in[2] == name and call('HEXISTS', header.tenants_key, tenant) == 0
end

local function is_of(header, name, tenant) return name == tenant or stands_for(header, name, tenant) end

-- The limits that a bypass puts into shadow now: true for all, a set of names, or nil.
function decision.bypassed(header, tenant, endpoint, now)
  local names
  for _, switch in ipairs(header.bypass) do
    if now < switch.until_us then
      local scope, name = switch.scope, switch.name
      if scope == 'all' or scope == 'tenant' and is_of(header, name, tenant) or scope == 'endpoint' and name == endpoint then
        return true
      elseif scope == 'limit' then
        names = names or {}
        names[name] = true
      end
    end
  end
  return names
end

-- If several limits deny, the one with the longest wait is named; one that can never pass comes first.
local function blame(limit, retry)
  deniers = deniers + 1
  if not denied or denied.retry >= 0 and (retry < 0 or retry > denied.retry) then denied = limit end
end

-- The key of the data that a limit keeps outside of the record.
local function key_beside(limit, record_key)
  if limit.kernel.ring then return keys.ring(record_key, limit) end
  if limit.kernel.holders then return keys.holders(record_key, limit) end
  return nil
end

-- Fails if rings or holders are not here while a cluster moves the slot. To take them for lost would start fresh ones.
function decision.prove_beside(shard, plan, records)
  local names, groups = { shard }, plan.g
  for i = 1, #groups do
    local limits = groups[i].beside
    for j = 1, #limits do names[#names + 1] = key_beside(limits[j], records[i]) end
  end
  if #names > 1 then H.reach.prove(unpack_(names)) end
end

-- A record's state in the plan's order of limits. heads[i] is the header to write the record back with.
local function state_of(group, i, text, now, record_key, is_private)
  if not text or #text == 0 then
    heads[i] = nil
    return is_private and record.fresh(group) or group.zeros
  end
  local head = sub(text, 1, group.last)
  if #text == group.size and (head == group.plain or head == group.marked) then
    heads[i] = head
    return { unpack_struct(group.format, text, group.start) }
  end
  heads[i] = record.is_sampled(text) and group.marked or group.plain
  return record.adopt(group, text, now, record_key)
end

local function is_switched(chain, switched)
  if switched == true then return true end
  for n = 1, #chain.nodes do
    if switched[chain.nodes[n].name] then return true end
  end
  return false
end

-- Judges the chains after all other limits. Of each, the leaf counts as any limit does.
local function judge_chains(plan, records, cost, now, switched, class)
  for c = 1, #plan.chains do
    local chain = plan.chains[c]
    local leaf = chain.leaf
    chains.judge(chain, records, cost, now, class)
    for n = 1, #chain.nodes do
      count = count + 1
      verdicts[count] = chain.nodes[n]
    end
    if leaf.enforced then
      if chain.ok then
        if not least or leaf.remaining < least.remaining then least = leaf end
      elseif switched and is_switched(chain, switched) then
        passed = passed or leaf
      else
        blame(leaf, leaf.retry)
      end
    end
  end
end

-- Judges every limit. The verdicts are kept in the limits until the next call. Changes no stored state.
-- `class` is the request's priority, for plans with chains. `before`, if given, may change the state of each stored record
-- first.
function decision.judge(plan, records, values, cost, now, holder, switched, class, before)
  count, wait_us, deniers = 0, 0, 0
  denied, passed, least = nil, nil, nil
  local groups, beside = plan.g, plan.beside
  local is_private = beside or plan.observers -- the state may be modified, so the shared zeros must not be used
  for i = 1, #groups do
    local group, record_key = groups[i], records[i]
    local state, out = state_of(group, i, values[i + 2], now, record_key, is_private), {}
    states[i], outs[i] = state, out
    if before and values[i + 2] then before(group, i, state, record_key) end
    local limits = group.l
    for j = 1, #limits do
      local limit = limits[j]
      local o = limit.o
      if limit.x then
        for k = o, o + limit.kernel.width - 1 do out[k] = state[k] end
      elseif not limit.chain then
        local key = beside and key_beside(limit, record_key)
        local ok, remaining, retry, wait = limit.decide(limit, state, o, now, limit.u or cost, out, key, holder)
        count = count + 1
        verdicts[count] = limit
        limit.ok, limit.remaining, limit.retry, limit.wait, limit.key = ok, remaining, retry, wait, key
        if limit.enforced then
          if ok then
            if wait > wait_us then wait_us = wait end
            if not least or remaining < least.remaining then least = limit end
          elseif switched and (switched == true or switched[limit.name]) then
            passed = passed or limit
          else
            blame(limit, retry)
          end
        end
      end
    end
  end
  if plan.chains then judge_chains(plan, records, cost, now, switched, class) end
end

-- A candidate is charged if every enforced limit admits, except perhaps the one that it would replace.
local function candidate_counts(limit)
  if not denied then return true end
  return deniers == 1 and denied == limit.group.l[limit.r]
end

-- Subjects are sampled by their hash when the record is created, and marked in its first byte.
local function first_head(header, group, record_key)
  if not group.d then return group.plain end
  local draw = tonumber_(sub(sha1hex(record_key), 1, 6), 16) % 1024
  return draw < header.sample and group.marked or group.plain
end

local function write(header, group, i, record_key, state)
  local head = heads[i] or first_head(header, group, record_key)
  heads[i] = head
  call('SET', record_key, pack(group.whole, head, unpack_(state, 1, group.numbers)), 'PX', group.ttl)
  if group.calendar then record.touch(record_key) end
end

-- Adds an admitted request to the data that its limits keep outside of the record.
local function charge_beside(limit, cost, now, holder)
  local kernel = limit.kernel
  if kernel.ring then
    local ttl = limit.group.ttl
    kernel.write(limit, states[limit.i], limit.o, limit.key, limit.u or cost, outs[limit.i], ttl)
  elseif kernel.holders then
    kernel.take(limit, limit.key, now, wait_us, holder)
  end
end

local function mend_holders(now)
  for n = 1, count do
    local limit = verdicts[n]
    if limit.strayed then limit.kernel.mend(limit, limit.key, now) end
  end
end

local function was_charged(limit) return limit.charged end

-- A repaired ring starts over, so limits that were not charged take over its new position.
local function keep_moved(group, state, out)
  if not state.moved then return end
  for _, limit in ipairs(group.l) do
    if limit.kernel.ring and state.moved[limit.o] and not limit.charged then
      for k = limit.o, limit.o + limit.kernel.width - 1 do out[k] = state[k] end
    end
  end
end

local function write_charged(plan, header, records, cost, now, holder, charge_block)
  local groups = plan.g
  if plan.beside then
    mend_holders(now)
    for n = 1, count do
      local limit = verdicts[n]
      limit.charged = limit.ok
      if limit.ok then charge_beside(limit, cost, now, holder) end
    end
    for i = 1, #groups do
      record.mend_rings(groups[i], records[i], states[i], was_charged)
      keep_moved(groups[i], states[i], outs[i])
    end
  end
  if charge_block then charge_block() end
  for i = 1, #groups do write(header, groups[i], i, records[i], outs[i]) end
end

-- After a denial, only charged candidates and states repaired after a clock step are written.
local function write_denied(plan, header, records, cost, now, holder)
  local touched = {}
  for n = 1, count do
    local limit = verdicts[n]
    local i, o = limit.i, limit.o
    -- A denied request does not run, so it holds no slot of a candidate either.
    limit.charged = limit.m == 'c' and limit.ok and not limit.kernel.holders and candidate_counts(limit)
    if limit.charged then
      charge_beside(limit, cost, now, holder)
      for k = o, o + limit.kernel.width - 1 do states[i][k] = outs[i][k] end
    end
    if limit.charged or states[i].mended then touched[i] = true end
  end
  if plan.beside then mend_holders(now) end
  for i in pairs(touched) do
    record.mend_rings(plan.g[i], records[i], states[i], was_charged)
    write(header, plan.g[i], i, records[i], states[i])
  end
  return touched
end

local function count_observers(shard, header, number, endpoint, cost, now)
  for n = 1, count do
    local limit = verdicts[n]
    local letter
    if limit.m == 's' and not limit.ok and not denied then
      letter = 'w'
    elseif limit.m == 'c' and candidate_counts(limit) then
      if not limit.ok and not denied then letter = 'n' end
      if limit.ok and denied then letter = 'y' end
    end
    if letter then account.count(shard, header.usage_key, now, number, endpoint, letter .. limit.id, cost) end
  end
end

local EMPTY = {}

-- The receipt is opaque to callers: time, plan, cost, each bucket's TAT, the numbers of each chain, and the factors of
-- limits that adapt. It is a list of numbers because Redis
-- formats those faster than Lua does. hr_refund takes it joined by colons.
local function receipt_of(plan, cost, now)
  -- A request that a bypass let through was not charged, so it must not be refunded: no plan has this mark.
  local receipt = { now, passed and '00000000' or plan.mark, cost }
  for k = 1, count do
    local limit = verdicts[k]
    if limit.P then receipt[#receipt + 1] = outs[limit.i][limit.o] end
  end
  for c = 1, plan.chains and #plan.chains or 0 do chains.add_to(receipt, plan.chains[c]) end
  if plan.scaled then H.adapt.add_to(receipt, plan) end
  return receipt
end

-- Whether the request's subject is sampled, or will be once its record is written.
function decision.is_sampled(plan, header, records)
  local i = plan.sampled
  if not i then return false end
  local group = plan.g[i]
  return (heads[i] or first_head(header, group, records[i])) == group.marked
end

-- How many limits there are if all of them admit, shadow limits and candidates included; otherwise nil.
function decision.all_admit()
  if denied or passed then return nil end
  for n = 1, count do
    if not verdicts[n].ok then return nil end
  end
  return count
end

local function reset_of(limit, now)
  local state = limit.ok and not denied and outs[limit.i] or states[limit.i]
  return limit.kernel.reset(limit, state, limit.o, now)
end

-- With the cause if a chain denies. Not as a value of its own: earlier clients take exactly twelve.
local function mode_of(limit)
  return not limit.ok and limit.chain and limit.m .. '/' .. limit.chain.cause or limit.m
end

local function row_of(limit, cost, now)
  local remaining = limit.remaining
  if limit.ok and denied then -- nothing was charged
    local left = limit.kernel.left
    remaining = left and left(limit, states[limit.i], limit.o, now) or remaining + (limit.u or cost)
  end
  return {
    limit.name, limit.ok and 1 or 0, limit.hq, limit.hw, remaining, reset_of(limit, now), limit.retry, limit.wait,
    mode_of(limit), limit.u and 'requests' or 'cost', limit.group.t or 'tenant', limit.group.c,
  }
end

function decision.answer(plan, revision, reason, cost, now, holder, rows, dry)
  local limit = denied or least or passed
  local receipt = rows and not denied and not dry and receipt_of(plan, cost, now) or EMPTY
  local reply
  if denied then
    reply = {
      0, reason, limit.name, limit.hq, limit.remaining, reset_of(limit, now), limit.retry, 0,
      revision, holder, EMPTY, plan.f,
    }
  elseif limit then
    reply = {
      1, reason, limit.name, limit.hq, limit.remaining, reset_of(limit, now), 0, wait_us,
      revision, holder, receipt, plan.f,
    }
  else
    return { 1, reason, '', 0, 0, 0, 0, 0, revision, holder, receipt, plan.f }
  end
  if rows then
    for n = 1, count do
      if verdicts[n].enforced then reply[#reply + 1] = row_of(verdicts[n], cost, now) end
    end
  end
  return reply
end

function decision.reason(overflow)
  if not denied then return passed and 'bypass' or 'ok' end
  if denied.retry < 0 then return 'cost_too_big' end
  return overflow and 'overflow' or 'limit'
end

local LETTERS = { limit = 'd', cost_too_big = 'z', overflow = 'o', bypass = 'b' }

local function settle_denied(shard, header, number, endpoint, plan, records, newcomers, reason, cost, now, holder)
  local touched = write_denied(plan, header, records, cost, now, holder)
  if newcomers then H.newcomers.charge(newcomers, touched, now) end
  account.count(shard, header.usage_key, now, number, endpoint, LETTERS[reason] .. denied.id, cost)
  local subject = keys.subject_of(records[denied.i], shard, denied.group)
  if reason == 'limit' and denied.chain then reason = 'limit/' .. denied.chain.cause end
  account.denial(shard, number, endpoint, now, denied.id, reason, cost, denied.retry, header.revision, subject)
end

-- The outcome of a request that borrowed: `l` and its lender. If several chains lent, the first one counts.
function decision.lent_by(plan)
  for c = 1, #plan.chains do
    local chain = plan.chains[c]
    local lender = chain.lender
    if lender and lender > 1 and chain.leaf.enforced then return chain.nodes[lender].lent end
  end
  return nil
end

-- A chain that admits what another limit denies learns nothing.
local function learn(plan, cost)
  for c = 1, #plan.chains do
    local chain = plan.chains[c]
    if not chain.ok or not denied then chains.learn(chain, cost) end
  end
end

local function settle_allowed(shard, header, number, endpoint, plan, records, newcomers, cost, now, holder, charge_block)
  write_charged(plan, header, records, cost, now, holder, charge_block)
  if newcomers then H.newcomers.charge(newcomers, nil, now) end
  local outcome = passed and 'b' .. passed.id or plan.chains and decision.lent_by(plan) or 'a'
  account.count(shard, header.usage_key, now, number, endpoint, outcome, cost)
end

-- Writes what `judge` decided. `charge_block`, if given, adds a block to the states of an allowed request.
function decision.settle(shard, header, number, endpoint, plan, records, newcomers, why, cost, now, holder, charge_block)
  if denied then
    settle_denied(shard, header, number, endpoint, plan, records, newcomers, why, cost, now, holder)
  else
    settle_allowed(shard, header, number, endpoint, plan, records, newcomers, cost, now, holder, charge_block)
  end
  if plan.chains then learn(plan, cost) end
  if plan.observers then count_observers(shard, header, number, endpoint, cost, now) end
  local sampled = plan.sampled
  if sampled and heads[sampled] == plan.g[sampled].marked then
    account.arrival(shard, number .. endpoint, records[sampled], now, cost, denied and 'd' or 'a')
  end
end

function decision.turned_away(shard, header, number, reason, now, dry)
  if not header then return decision.refused(reason) end
  if not dry then
    local letter = reason == 'suspended' and 'p' or 'u'
    if reason == 'suspended' then H.reach.prove(shard, header.usage_key) end -- an unknown one was proven (locate.lua)
    account.count(shard, header.usage_key, now, number or '00000', '000', letter, 1)
  end
  return decision.refused(reason, header.revision)
end

local made = 0

function decision.holder_of(plan, dimensions, now)
  if not plan.holds then return '' end
  if dimensions.holder then return dimensions.holder end
  made = made + 1
  return format('%.0f-%d', now, made)
end
