-- hr_check: one decision over all limits of a tenant's plan, and its accounting.
-- KEYS[1]  the shard's prefix, hr:{crc32(tenant) mod shards}
-- ARGV     tenant, endpoint, cost (a whole number, or * for the endpoint's own), [ALL], [dimension, value]...
-- reply    allowed 1/0, reason, limit, quota, remaining, reset_us, retry_us (-1: never), wait_us, revision,
--          holder, receipt, failure profile; with ALL then a row per limit: name, allowed 1/0, quota,
--          window_s, remaining, reset_us, retry_us, wait_us, mode, unit, subject, scope
-- reads    token, tenant entry and every record before the first write
-- writes   if all enforced limits admit: their records (with TTL); in any case the accounting.
--          A denied request changes no enforced limit's state.

local HOUR = 3600000000

local function reply(allowed, reason, name, quota, remaining, reset, retry, wait, revision, holder, receipt, fail)
  return { allowed, reason, name, quota, remaining, reset, retry, wait, revision, holder, receipt, fail }
end

local function refused(reason, revision)
  return reply(0, reason, '', 0, 0, 0, -1, 0, revision or 0, '', '', '')
end

-- Which limits a switch turns to shadow right now: true for all, a set of names, or nil.
local function bypassed(header, tenant, endpoint, now)
  local names
  for _, switch in ipairs(header.bypass) do
    if now < switch.until_us then
      local scope, name = switch.scope, switch.name
      if scope == 'all' or scope == 'tenant' and name == tenant or scope == 'endpoint' and name == endpoint then
        return true
      elseif scope == 'limit' then
        names = names or {}
        names[name] = true
      end
    end
  end
  return names
end

-- One MGET of token and records. nil when the cached header turned out to be old.
local function read(place, records)
  local wanted = { place.shard, place.header.usage_key }
  for i = 1, #records do wanted[i + 2] = records[i] end
  local values = call('MGET', unpack_(wanted))
  if values[1] == place.header.token then return values end
  return nil
end

-- New subjects are paid for from a bucket of `cap` an hour. Those past it share the overflow record.
local function newcomers(place, records, values, dimensions, now)
  local header, cap = place.header, place.header.cap
  local interval = HOUR / cap
  local key = H.keys.newcomers(place.shard, place.number)
  local tat = max(tonumber_(call('GET', key) or 0), now)
  tat = min(tat, now + HOUR)
  local created = {}
  for i, group in ipairs(place.plan.g) do
    if group.d and not values[i + 2] then
      local registered = dimensions.key and call('HEXISTS', H.keys.registered(place.shard), dimensions.key) == 1
      if registered and group.t == 'key' then
        created[i] = 0
      elseif tat + interval - now <= HOUR then
        tat = tat + interval
        created[i] = interval
      else
        local owner = group.a and H.keys.EVERYONE or H.keys.owner(place.shard, place.number)
        records[i] = H.keys.record(owner, group.scope, H.keys.overflow(group))
        values[i + 2] = call('GET', records[i])
        place.overflow = true
      end
    end
  end
  place.newcomers_key = key
  return created
end

local function charge_newcomers(place, created, now)
  local total = 0
  for _, interval in pairs(created) do total = total + interval end
  if total == 0 then return end
  local tat = max(tonumber_(call('GET', place.newcomers_key) or 0), now) + total
  call('SET', place.newcomers_key, format('%.0f', tat), 'PX', ceil((tat - now) / 1000) + 1000)
end

local function suffix_key(limit, record)
  if limit.kernel.ring then return H.keys.ring(record, limit) end
  if limit.kernel.holders then return H.keys.holders(record, limit) end
  return nil
end

-- Judges every limit. Fills `found` with what the answer needs; changes no state.
local function judge(place, records, values, cost, now, holder, switched)
  local found = { states = {}, outs = {}, verdicts = {}, denied = nil, wait = 0 }
  local least
  local n = 0
  for i, group in ipairs(place.plan.g) do
    local text = values[i + 2]
    local state = text and H.record.read(group, text, now, records[i]) or H.record.fresh(group)
    local out = {}
    found.states[i], found.outs[i] = state, out
    for j, limit in ipairs(group.l) do
      local o = limit.o
      if limit.x then
        for k = o, o + limit.kernel.width - 1 do out[k] = state[k] end
      else
        local charge = limit.u and 1 or cost
        local key = suffix_key(limit, records[i])
        local ok, remaining, retry, wait = limit.kernel.decide(limit, state, o, now, charge, out, key, holder)
        n = n + 1
        local verdict = { limit, ok, remaining, retry, wait, i, key, charge }
        found.verdicts[n] = verdict
        if limit.m == 'e' then
          if ok then
            if wait > found.wait then found.wait = wait end
            if not least or remaining < least[3] then least = verdict end
          elseif switched and (switched == true or switched[limit.name]) then
            found.passed = found.passed or verdict
          else
            local worst = found.denied
            if not worst or worst[4] >= 0 and (retry < 0 or retry > worst[4]) then found.denied = verdict end
            found.deniers = (found.deniers or 0) + 1
          end
        end
      end
    end
  end
  found.named = found.denied or least or found.passed
  return found
end

-- A candidate is charged when every enforced limit but the one it would replace admits.
local function candidate_counts(found, verdict, group)
  if not found.denied then return true end
  return found.deniers == 1 and found.denied[1] == group.l[verdict[1].r]
end

local function mark_of(place, records, text, group, i)
  if text then return sub(text, 1, 1) end
  if not group.d then return H.record.PLAIN end
  local draw = tonumber_(sub(sha1hex(records[i]), 1, 6), 16) % 1024
  return draw < place.header.sample and H.record.SAMPLED or H.record.PLAIN
end

local function keep_rings_and_holders(found, verdict, records, group, now, holder)
  local limit, ok, i, key = verdict[1], verdict[2], verdict[6], verdict[7]
  local kernel, state = limit.kernel, found.states[i]
  if kernel.ring then
    if ok then
      kernel.write(limit, state, limit.o, key, verdict[8], found.outs[i], group.ttl)
    else
      kernel.mend(limit, state, limit.o, key, group.ttl)
    end
  elseif kernel.holders and ok then
    kernel.take(limit, key, now, found.wait, holder)
  end
end

local function write_charged(place, records, values, found, now, holder)
  for i, group in ipairs(place.plan.g) do
    H.record.write(group, records[i], found.outs[i], mark_of(place, records, values[i + 2], group, i))
  end
  for _, verdict in ipairs(found.verdicts) do
    if verdict[7] then keep_rings_and_holders(found, verdict, records, place.plan.g[verdict[6]], now, holder) end
  end
end

-- After a denial only candidates that count, and states mended after a clock step, are written.
local function write_denied(place, records, values, found)
  local touched = {}
  for _, verdict in ipairs(found.verdicts) do
    local limit, i = verdict[1], verdict[6]
    local group = place.plan.g[i]
    if found.states[i].mended then touched[i] = true end
    if limit.m == 'c' and verdict[2] and candidate_counts(found, verdict, group) then
      touched[i] = true
      if limit.kernel.ring then
        limit.kernel.write(limit, found.states[i], limit.o, verdict[7], verdict[8], found.outs[i], group.ttl)
      end
      for k = limit.o, limit.o + limit.kernel.width - 1 do found.states[i][k] = found.outs[i][k] end
    elseif touched[i] and limit.kernel.ring then
      limit.kernel.mend(limit, found.states[i], limit.o, verdict[7], group.ttl)
    end
  end
  for i in pairs(touched) do
    local group = place.plan.g[i]
    H.record.write(group, records[i], found.states[i], mark_of(place, records, values[i + 2], group, i))
  end
  return touched
end

local function count_observers(place, found, who, cost, now)
  for _, verdict in ipairs(found.verdicts) do
    local limit, ok = verdict[1], verdict[2]
    local letter
    if limit.m == 's' and not ok and not found.denied then
      letter = 'w'
    elseif limit.m == 'c' and candidate_counts(found, verdict, place.plan.g[verdict[6]]) then
      if not ok and not found.denied then letter = 'n' end
      if ok and found.denied then letter = 'y' end
    end
    if letter then H.account.count(place.shard, place.header.usage_key, now, who, letter .. limit.id, cost) end
  end
end

-- Opaque to callers: when, for which plan, and each bucket's own TAT (hr_refund reads it).
local function receipt_of(place, found, now)
  local text = pack('<d', now) .. sub(place.plan.id, 1, 8)
  for _, verdict in ipairs(found.verdicts) do
    local limit = verdict[1]
    if limit.P then text = text .. pack('<d', found.outs[verdict[6]][limit.o]) end
  end
  return text
end

local function row_of(place, found, verdict, now)
  local limit, i = verdict[1], verdict[6]
  local state = verdict[2] and not found.denied and found.outs[i] or found.states[i]
  local group = place.plan.g[i]
  -- Nothing was charged if another limit denied.
  local remaining = verdict[2] and found.denied and verdict[3] + verdict[8] or verdict[3]
  return {
    limit.name, verdict[2] and 1 or 0, limit.hq, limit.hw, remaining,
    limit.kernel.reset(limit, state, limit.o, now, verdict[7]), verdict[4], verdict[5],
    limit.m, limit.u and 'requests' or 'cost', group.t or 'tenant', group.c,
  }
end

local function answer(place, found, reason, now, holder, receipt, rows)
  local named, plan, revision = found.named, place.plan, place.header.revision
  local allowed = found.denied and 0 or 1
  if not named then return reply(1, reason, '', 0, 0, 0, 0, 0, revision, holder, receipt, plan.f) end
  local limit, i = named[1], named[6]
  local state = allowed == 1 and named[2] and found.outs[i] or found.states[i]
  local reset = limit.kernel.reset(limit, state, limit.o, now, named[7])
  local retry = allowed == 1 and 0 or named[4]
  local answered = reply(
    allowed, reason, limit.name, limit.hq, named[3], reset, retry, allowed == 1 and found.wait or 0,
    revision, holder, receipt, plan.f
  )
  if rows then
    for _, verdict in ipairs(found.verdicts) do
      if verdict[1].m == 'e' then answered[#answered + 1] = row_of(place, found, verdict, now) end
    end
  end
  return answered
end

local function reason_of(place, found)
  if not found.denied then return found.passed and 'bypass' or 'ok' end
  if found.denied[4] < 0 then return 'cost_too_big' end
  return place.overflow and 'overflow' or 'limit'
end

local LETTERS = { limit = 'd', cost_too_big = 'z', overflow = 'o', bypass = 'b' }

local function settle(place, records, values, found, created, reason, cost, now, holder)
  local header, who = place.header, place.number .. place.endpoint
  local touched = created
  if found.denied then
    local kept = write_denied(place, records, values, found)
    touched = {}
    for i in pairs(created) do touched[i] = kept[i] and created[i] or nil end
  else
    write_charged(place, records, values, found, now, holder)
  end
  if next(touched) then charge_newcomers(place, touched, now) end
  local letter = LETTERS[reason]
  local blamed = found.denied or found.passed
  H.account.count(place.shard, header.usage_key, now, who, letter and letter .. blamed[1].id or 'a', cost)
  count_observers(place, found, who, cost, now)
end

local function remember(place, records, values, found, reason, cost, now)
  for i, group in ipairs(place.plan.g) do
    if group.d then
      if values[i + 2] and H.record.is_sampled(values[i + 2]) then
        H.account.arrival(place.shard, place.number .. place.endpoint, records[i], now, cost, found.denied and 'd' or 'a')
      end
      break
    end
  end
  local denied = found.denied
  if not denied then return end
  local subject = sub(records[denied[6]], #place.shard + 8)
  H.account.denial(
    place.shard, place.number, place.endpoint, now, denied[1].id, reason, cost, denied[4],
    place.header.revision, subject
  )
end

local function turned_away(place, reason, shard, now, dry)
  local header = place and place.header or H.plans.shards[shard]
  if not dry and header then
    local who = place and place.number .. '000' or '00000000'
    local letter = reason == 'suspended' and 'p' or 'u'
    H.account.count(place and place.shard or shard, header.usage_key, now, who, letter, 1)
  end
  return refused(reason, header and header.revision)
end

-- Up to two tries: the second after the cached header proved to be old.
local function decide(shard, tenant, endpoint, now, args, first)
  for _ = 1, 2 do
    local place, reason, problem = H.locate(shard, tenant, endpoint, now)
    if reason then return place, reason, problem end
    local dimensions = place.plan.needs_dimensions and H.dimensions(args, first)
    local records = H.records(place, dimensions)
    local values = read(place, records)
    if values then return place, nil, nil, dimensions, records, values end
    H.plans.drop(shard)
    H.plans.drop(place.shard)
  end
  return nil, 'not_ready'
end

local made = 0

local function holder_of(plan, dimensions, now)
  if not plan.holds then return '' end
  if dimensions.holder then return dimensions.holder end
  made = made + 1
  return format('%.0f-%d', now, made)
end

local function check(keys, args, now, dry)
  local shard, tenant, endpoint = keys[1], args[1], args[2]
  local cost, problem, first, rows = H.arguments(args, 3)
  if not cost then return problem end
  local place, reason, wrong, dimensions, records, values = decide(shard, tenant, endpoint, now, args, first)
  if wrong then return wrong end
  if reason then
    if reason == 'not_ready' then return refused(reason) end
    return turned_away(place, reason, shard, now, dry)
  end
  if cost == '*' then cost = place.default end
  local header = place.header
  local created = {}
  if dimensions then
    for i, group in ipairs(place.plan.g) do
      if group.d and not values[i + 2] then
        created = newcomers(place, records, values, dimensions, now)
        break
      end
    end
  end
  local holder = holder_of(place.plan, dimensions, now)
  local switched = header.bypass and bypassed(header, tenant, endpoint, now)
  local found = judge(place, records, values, cost, now, holder, switched)
  local why = reason_of(place, found)
  if dry then return answer(place, found, why, now, holder, '', rows) end
  settle(place, records, values, found, created, why, cost, now, holder)
  remember(place, records, values, found, why, cost, now)
  local receipt = found.denied and '' or receipt_of(place, found, now)
  return answer(place, found, why, now, holder, receipt, rows)
end

H.define('check', {}, check)

-- hr_peek: the same question and answer; charges, counts and writes nothing.
H.define('peek', { 'no-writes' }, function(keys, args, now) return check(keys, args, now, true) end)
