-- Kernel of concurrency (c). Parameters: n = limit, H = hold in µs. Every request counts 1, whatever its cost.
-- State: a sorted set holder → expiry in µs under <record key>:h:<limit id>; nothing in the record.
-- The caller chooses `holder`, so that it can release a slot even if the reply was lost. A repeated holder renews.
local concurrency = { format = '', width = 0, holders = true }

-- How many others hold a slot.
function concurrency.held(key, now, holder)
  local others = call('ZCOUNT', key, format('(%.0f', now), '+inf')
  local mine = call('ZSCORE', key, holder)
  if mine and tonumber_(mine) > now then others = others - 1 end
  return others
end

-- An expiry more than two holds ahead means that the clock went backwards. (One hold may follow a wait.)
function concurrency.strays(limit, key, now)
  return call('ZCOUNT', key, format('(%.0f', now + 2 * limit.H), '+inf') > 0
end

function concurrency.decide(limit, state, o, now, cost, out, key, holder)
  limit.strayed = concurrency.strays(limit, key, now)
  local others = concurrency.held(key, now, holder)
  if others >= limit.n then return false, 0, 1000000, 0 end
  return true, limit.n - others - 1, 0, 0
end

-- Gives such holders one hold from now.
function concurrency.mend(limit, key, now)
  for _, holder in ipairs(call('ZRANGEBYSCORE', key, format('(%.0f', now + 2 * limit.H), '+inf')) do
    call('ZADD', key, format('%.0f', now + limit.H), holder)
  end
end

function concurrency.reset()
  return 0
end

function concurrency.take(limit, key, now, wait, holder)
  -- In this order, so that the set never becomes empty: it would be gone, and out of reach while a slot moves.
  call('ZADD', key, format('%.0f', now + wait + limit.H), holder)
  call('ZREMRANGEBYSCORE', key, '-inf', format('%.0f', now))
  -- The set must outlive its longest holder, so a shorter hold or wait does not shorten the TTL.
  local left = call('PTTL', key)
  local need = ceil((wait + limit.H) / 1000) + 1000
  if left < need then call('PEXPIRE', key, need) end
end

H.kinds.c = concurrency
