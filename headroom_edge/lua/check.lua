-- hr_check: one decision over all limits of a tenant's plan, and its accounting.
-- KEYS[1]  the shard's prefix, hr:{crc32(tenant) mod shards}
-- ARGV     tenant, endpoint, cost (a whole number, or * for the endpoint's default), [ALL], [dimension, value]...
-- reply    allowed 1/0, reason, limit, quota, remaining, reset_us, retry_us (-1: never), wait_us, revision,
--          holder, receipt (only with ALL), failure mode; with ALL also one row per limit: name, allowed 1/0,
--          quota, window_s, remaining, reset_us, retry_us, wait_us, mode, unit, subject, scope
-- reads    token, tenant entry and every record, before the first write
-- writes   the records (with TTL) if all enforced limits admit; the accounting in any case.
--          A denied request changes no enforced limit's state.
--
-- This is the hot path: few tables, few calls, no iterators. The results of a call are kept in the locals below and
-- in the limits themselves; every call overwrites them.

local states, outs, heads, verdicts, count = {}, {}, {}, {}, 0
local wait_us, deniers = 0, 0
local denied, passed, least -- limits: the one named in a denial, one that a bypass let through, the tightest

local keys, record, plans, account = H.keys, H.record, H.plans, H.account

local function refused(reason, revision)
  return { 0, reason, '', 0, 0, 0, -1, 0, revision or 0, '', {}, '' }
end

-- Whether the caller's tenant is unknown and `name` is the tenant that stands in for unknown ones.
local function stands_for(header, name, tenant)
  local stands_in = header.unknown
  return stands_in and stands_in[2] == name and call('HEXISTS', header.tenants_key, tenant) == 0
end

local function is_of(header, name, tenant) return name == tenant or stands_for(header, name, tenant) end

-- The limits that a bypass puts into shadow now: true for all, a set of names, or nil.
local function bypassed(header, tenant, endpoint, now)
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

-- Judges every limit. The verdicts are kept in the limits until the next call. Changes no stored state.
local function judge(plan, records, values, cost, now, holder, switched)
  count, wait_us, deniers = 0, 0, 0
  denied, passed, least = nil, nil, nil
  local groups, beside = plan.g, plan.beside
  local is_private = beside or plan.observers -- the state may be modified, so the shared zeros must not be used
  for i = 1, #groups do
    local group, record_key = groups[i], records[i]
    local state, out = state_of(group, i, values[i + 2], now, record_key, is_private), {}
    states[i], outs[i] = state, out
    local limits = group.l
    for j = 1, #limits do
      local limit = limits[j]
      local o = limit.o
      if limit.x then
        for k = o, o + limit.kernel.width - 1 do out[k] = state[k] end
      else
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
  local body
  if group.numbers == 2 then
    body = pack(group.format, state[1], state[2])
  else
    body = pack(group.format, unpack_(state, 1, group.numbers))
  end
  heads[i] = heads[i] or first_head(header, group, record_key)
  call('SET', record_key, heads[i] .. body, 'PX', group.ttl)
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

local function write_charged(plan, header, records, cost, now, holder)
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
  for i = 1, #groups do write(header, groups[i], i, records[i], outs[i]) end
end

-- After a denial, only charged candidates and states repaired after a clock step are written.
local function write_denied(plan, header, records, cost, now, holder)
  local touched = {}
  for n = 1, count do
    local limit = verdicts[n]
    local i, o = limit.i, limit.o
    limit.charged = limit.m == 'c' and limit.ok and candidate_counts(limit)
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

-- The receipt is opaque to callers: time, plan, cost, and each bucket's TAT. It is a list of numbers because Redis
-- formats those faster than Lua does. hr_refund takes it joined by colons.
local function receipt_of(plan, cost, now)
  -- A request that a bypass let through was not charged, so it must not be refunded: no plan has this mark.
  local receipt = { now, passed and '00000000' or plan.mark, cost }
  for k = 1, count do
    local limit = verdicts[k]
    if limit.P then receipt[#receipt + 1] = outs[limit.i][limit.o] end
  end
  return receipt
end

local function reset_of(limit, now)
  local state = limit.ok and not denied and outs[limit.i] or states[limit.i]
  return limit.kernel.reset(limit, state, limit.o, now)
end

local function row_of(limit, cost, now)
  local remaining = limit.remaining
  if limit.ok and denied then -- nothing was charged
    local left = limit.kernel.left
    remaining = left and left(limit, states[limit.i], limit.o, now) or remaining + (limit.u or cost)
  end
  return {
    limit.name, limit.ok and 1 or 0, limit.hq, limit.hw, remaining, reset_of(limit, now), limit.retry, limit.wait,
    limit.m, limit.u and 'requests' or 'cost', limit.group.t or 'tenant', limit.group.c,
  }
end

local function answer(plan, revision, reason, cost, now, holder, receipt, rows)
  local limit = denied or least or passed
  local reply
  if denied then
    reply = {
      0, reason, limit.name, limit.hq, limit.remaining, reset_of(limit, now), limit.retry, 0,
      revision, holder, {}, plan.f,
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

local function reason_of(overflow)
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
  account.denial(shard, number, endpoint, now, denied.id, reason, cost, denied.retry, header.revision, subject)
end

local function settle_allowed(shard, header, number, endpoint, plan, records, newcomers, cost, now, holder)
  write_charged(plan, header, records, cost, now, holder)
  if newcomers then H.newcomers.charge(newcomers, nil, now) end
  account.count(shard, header.usage_key, now, number, endpoint, passed and 'b' .. passed.id or 'a', cost)
end

local function turned_away(shard, header, number, reason, now, dry)
  if not header then return refused(reason) end
  if not dry then
    local letter = reason == 'suspended' and 'p' or 'u'
    account.count(shard, header.usage_key, now, number or '00000', '000', letter, 1)
  end
  return refused(reason, header.revision)
end

local made = 0

local function holder_of(plan, dimensions, now)
  if not plan.holds then return '' end
  if dimensions.holder then return dimensions.holder end
  made = made + 1
  return format('%.0f-%d', now, made)
end

-- Reads the token and all records with one MGET, before anything is written.
local function read(shard, header, records)
  local count = #records
  if count == 1 then return call('MGET', shard, header.usage_key, records[1]) end
  return call('MGET', shard, header.usage_key, unpack_(records))
end

local locate, arguments, records_of, count_usage = H.locate, H.arguments, H.records, account.count
local reset_at = H.kinds.t.reset_at
local EMPTY = {}
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
      local o, P, amount = limit.o, limit.P, limit.u or cost
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
        local ok
        ok, remaining = limit.decide(limit, state, o, now, amount, kept)
        if not ok or state.mended then
          state.mended = nil
          return nil
        end
        if not left or remaining < left then
          left, tightest, backlog_left = remaining, limit, nil
          reset = limit.kernel.reset(limit, kept, o, now)
        end
      end
    end
    if numbers == 2 then
      fresh[i] = head .. pack(group.format, kept[1], kept[2])
    else
      fresh[i] = head .. pack(group.format, unpack_(kept, 1, numbers))
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

local function check(call_keys, args, now, dry)
  local tenant, endpoint = args[1], args[2]
  local cost, problem, first, rows = arguments(args, 3)
  if not cost then return problem end
  local shard, header, number, plan, endpoint_number, default, reason
  local dimensions, records, values
  for try = 1, 2 do
    shard, header, number, plan, endpoint_number, default, reason, problem = locate(call_keys[1], tenant, endpoint, now)
    if problem then return problem end
    if reason then return turned_away(shard, header, number, reason, now, dry) end
    dimensions = plan.needs_dimensions and H.dimensions(args, first) or nil
    records = records_of(shard, number, plan, dimensions)
    values = read(shard, header, records)
    if values[1] == header.token then break end
    -- The cached header is stale: read it again, once.
    plans.drop(shard)
    if try == 2 then return refused('not_ready') end
  end
  if cost == '*' then cost = default end
  if plan.simple and not rows and not dry and not header.bypass then
    local quick = pass(shard, header, number, endpoint_number, plan, records, values, cost, now)
    if quick then return quick end
  end
  local newcomers = dimensions and H.newcomers.admit(shard, header, number, plan, records, values, dimensions, now)
  local holder = holder_of(plan, dimensions, now)
  local switched = header.bypass and bypassed(header, tenant, endpoint, now)
  judge(plan, records, values, cost, now, holder, switched)
  local why = reason_of(newcomers and newcomers.overflow)
  local revision = header.revision
  if dry then return answer(plan, revision, why, cost, now, holder, {}, rows) end
  if denied then
    settle_denied(shard, header, number, endpoint_number, plan, records, newcomers, why, cost, now, holder)
  else
    settle_allowed(shard, header, number, endpoint_number, plan, records, newcomers, cost, now, holder)
  end
  if plan.observers then count_observers(shard, header, number, endpoint_number, cost, now) end
  local sampled = plan.sampled
  if sampled and heads[sampled] == plan.g[sampled].marked then
    account.arrival(shard, number .. endpoint_number, records[sampled], now, cost, denied and 'd' or 'a')
  end
  return answer(plan, revision, why, cost, now, holder, rows and not denied and receipt_of(plan, cost, now) or EMPTY, rows)
end

H.define('check', {}, check)

-- hr_peek: same arguments and reply as hr_check; charges, counts and writes nothing.
H.define('peek', { 'no-writes' }, function(call_keys, args, now) return check(call_keys, args, now, true) end)
