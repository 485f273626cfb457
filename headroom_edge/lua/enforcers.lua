-- hr_heartbeat: registers an enforcing process as alive, or takes it off the list.
-- KEYS[1]  hr:{all}        ARGV  the process's id, JSON about it; an empty text instead: it ends
-- reply    how many enforcers sent a heartbeat within 15 s
-- writes   hr:{all}:e (id → when its heartbeat ends), hr:{all}:i (id → JSON), both with TTL. Silent processes stay for
--          10 minutes, so that people see which ones fell silent; of more than 10,000 the most silent one goes.
--          Refused while a cluster moves the slot and not both keys are here (reach.lua)
local ALIVE_US, SHOWN_US, KEPT_MS, MOST = 15000000, 600000000, 3600000, 10000

local function forget(alive, info, ids)
  if #ids > 0 then
    call('ZREM', alive, unpack_(ids))
    call('HDEL', info, unpack_(ids))
  end
end

H.define('heartbeat', { 'allow-oom' }, function(keys, args, now)
  if keys[1] ~= H.keys.ALL or not args[2] or #args[1] > 100 or #args[2] > 4096 then
    return H.fail('HRARGS', 'the key is ' .. H.keys.ALL .. '; give an id of at most 100 bytes and JSON of at most 4096')
  end
  local alive, info = H.keys.enforcers(), H.keys.enforcer_info()
  H.reach.prove(alive, info)
  if args[2] == '' then
    forget(alive, info, { args[1] })
  else
    call('ZADD', alive, format('%.0f', now + ALIVE_US), args[1])
    call('HSET', info, args[1], args[2])
    -- After the new one, so that the keys never become empty: they would be gone, and out of reach while a slot moves.
    forget(alive, info, call('ZRANGEBYSCORE', alive, '-inf', format('%.0f', now - SHOWN_US), 'LIMIT', 0, 100))
    if call('ZCARD', alive) > MOST then forget(alive, info, call('ZRANGE', alive, 0, 0)) end
    call('PEXPIRE', alive, KEPT_MS)
    call('PEXPIRE', info, KEPT_MS)
  end
  -- The last one takes the keys with it, and a slot that moves then refuses to look: there is none.
  local count = protected_call('ZCOUNT', alive, format('%.0f', now), '+inf')
  return type(count) == 'number' and count or 0
end)

-- Cost × 2^24 must stay below 2^63.
local MOST_REPORTED = 549755813887

-- hr_report: counts decisions that an enforcer made without this server.
-- KEYS[1]  the shard's prefix
-- ARGV     tenant, endpoint, g (let through) or c (refused) while it could not reach this server, count, cost; or
--          tenant, endpoint, d, count, cost, limit: denied because that limit had just denied an equal request
-- reply    1, or 0 if the tenant is unknown
-- writes   the accounting, in the second of the report
local OUTCOMES = { g = 5, c = 5, d = 6 } -- and how many arguments it takes

-- The id of the plan's enforced limit of that name; empty if it is no longer part of the plan.
local function limit_id(plan, name)
  for _, group in ipairs(plan.g) do
    for _, limit in ipairs(group.l) do
      if limit.enforced and not limit.x and limit.name == name then return limit.id end
    end
  end
  local number = plan.G and plan.G[name]
  return number and H.base36(number) or ''
end

H.define('report', { 'allow-oom' }, function(keys, args, now)
  local outcome = args[3]
  local count, cost = H.whole(args[4], 1, 16777215), H.whole(args[5], 1, MOST_REPORTED)
  if not outcome or OUTCOMES[outcome] ~= #args or not count or not cost then
    return H.fail('HRARGS', 'give tenant, endpoint, g or c, count and cost; or d, count, cost and the limit')
  end
  local shard, header, number, plan, endpoint, _, reason, problem = H.locate(keys[1], args[1], args[2], now)
  if problem then return problem end
  if reason then return 0 end
  H.reach.prove(shard, header.usage_key)
  if outcome == 'd' then
    local id = limit_id(plan, args[6])
    outcome = 'd' .. id
    -- A global limit denies at its home, which does not know the tenant: so this explains the denial.
    if plan.G and plan.G[args[6]] then
      H.account.denial(shard, number, endpoint, now, id, 'limit', cost, 0, header.revision, '')
    end
  end
  H.account.count(shard, header.usage_key, now, number, endpoint, outcome, cost, count)
  return 1
end)
