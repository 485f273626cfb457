-- Stops asking a store that does not answer, and probes it with single requests. One per worker; the numbers are those
-- of headroom_edge/store/breaker.py.
local bit = require "bit"
local clock = require "headroom.clock"

local FAILURES, OF, FORGET_S, COOLDOWN_S = 5, 20, 10, 0.5
local MASK = bit.lshift(1, OF) - 1
local CLOSED, OPEN, HALF_OPEN = "closed", "open", "half-open"

local breaker = { state = CLOSED, opened = 0, probes = 0 }
local history, last_failure_s, changed_s = 0, 0, 0

local function open()
  breaker.state, changed_s = OPEN, clock.now()
end

local function failures()
  local left, count = history, 0
  while left > 0 do
    left, count = bit.band(left, left - 1), count + 1
  end
  return count
end

-- "ask", "probe", or nil: do not ask. A probe without an outcome (its request was ended) counts as failed in time.
function breaker.enter()
  if breaker.state == CLOSED then return "ask" end
  local now = clock.now()
  if now - changed_s < COOLDOWN_S * (breaker.state == HALF_OPEN and 10 or 1) then return nil end
  breaker.state, changed_s = HALF_OPEN, now
  breaker.probes = breaker.probes + 1
  return "probe"
end

function breaker.succeeded(permit)
  if permit == "probe" then
    breaker.state, history = CLOSED, 0
  elseif history > 0 then
    history = bit.band(bit.lshift(history, 1), MASK)
  end
end

function breaker.failed(permit)
  if permit == "probe" then return open() end
  if breaker.state ~= CLOSED then return end
  local now = clock.now()
  if now - last_failure_s > FORGET_S then history = 0 end
  last_failure_s = now
  history = bit.band(bit.bor(bit.lshift(history, 1), 1), MASK)
  if failures() >= FAILURES then
    breaker.opened = breaker.opened + 1
    open()
  end
end

return breaker
