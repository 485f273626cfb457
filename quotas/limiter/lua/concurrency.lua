-- Kernel of concurrency (c). Parameters: n = limit, H = hold in µs. Always counts 1, whatever the cost.
-- State: a sorted set holder → expiry in µs under <record key>:h:<limit id>; nothing in the record.
-- `holder` is the caller's id, so that a lost reply can still be released; the same holder again renews.
local concurrency = { format = '', width = 0, zero = {}, holders = true }

local function held(limit, key, now, holder)
  local others = call('ZCOUNT', key, format('(%.0f', now), '+inf')
  local mine = holder and call('ZSCORE', key, holder)
  if mine and tonumber_(mine) > now then others = others - 1 end
  return others
end

function concurrency.decide(limit, state, o, now, cost, out, key, holder)
  local others = held(limit, key, now, holder)
  if others >= limit.n then return false, 0, 1000000, 0 end
  return true, limit.n - others - 1, 0, 0
end

function concurrency.reset()
  return 0
end

function concurrency.take(limit, key, now, wait, holder)
  call('ZREMRANGEBYSCORE', key, '-inf', format('%.0f', now))
  call('ZADD', key, format('%.0f', now + wait + limit.H), holder)
  -- Kept for the longest holder: a shorter hold or wait must not expire it.
  local left = call('PTTL', key)
  local need = ceil((wait + limit.H) / 1000) + 1000
  if left < need then call('PEXPIRE', key, need) end
end

H.kinds.c = concurrency
