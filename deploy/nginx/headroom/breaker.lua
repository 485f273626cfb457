-- Stops asking a server that does not answer, and probes it with single requests. One per server and worker; the numbers
-- are those of headroom_edge/store/breaker.py.
local bit = require "bit"
local clock = require "headroom.clock"

local FAILURES, OF, FORGET_S, COOLDOWN_S = 5, 20, 10, 0.5
local MASK = bit.lshift(1, OF) - 1
local CLOSED, OPEN, HALF_OPEN = "closed", "open", "half-open"

local breaker = {}
breaker.__index = breaker

function breaker.new()
  return setmetatable({ state = CLOSED, history = 0, last_failure_s = 0, changed_s = 0 }, breaker)
end

local function open(self)
  self.state, self.changed_s = OPEN, clock.now()
end

local function failures(history)
  local count = 0
  while history > 0 do
    history, count = bit.band(history, history - 1), count + 1
  end
  return count
end

-- "ask", "probe", or nil: do not ask. A probe without an outcome (its request was ended) counts as failed in time.
function breaker:enter()
  if self.state == CLOSED then return "ask" end
  local now = clock.now()
  if now - self.changed_s < COOLDOWN_S * (self.state == HALF_OPEN and 10 or 1) then return nil end
  self.state, self.changed_s = HALF_OPEN, now
  return "probe"
end

function breaker:succeeded(permit)
  if permit == "probe" then
    self.state, self.history = CLOSED, 0
  elseif self.history > 0 then
    self.history = bit.band(bit.lshift(self.history, 1), MASK)
  end
end

function breaker:failed(permit)
  if permit == "probe" then return open(self) end
  if self.state ~= CLOSED then return end
  local now = clock.now()
  if now - self.last_failure_s > FORGET_S then self.history = 0 end
  self.last_failure_s = now
  self.history = bit.band(bit.bor(bit.lshift(self.history, 1), 1), MASK)
  if failures(self.history) >= FAILURES then open(self) end
end

return breaker
