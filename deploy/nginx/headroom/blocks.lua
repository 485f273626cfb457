-- Blocks of requests that may pass without asking the store. All workers spend them, from `lua_shared_dict headroom`:
--   <key>  id of the block to spend; 0: a worker is asking for one; -1: there is none for a moment
--   n<id>  requests left; far below zero once it is sealed
--   late   settlements to send, a list
--   r<id>  there while a worker asks for the block after it
--   m<id>  everything else about the block, as a list in RESP
-- Everything is written with safe_…, so that no block is pushed out by another one; entries end by themselves if the
-- worker that wrote them was killed.
local checks = require "headroom.checks"
local clock = require "headroom.clock"
local recent_cache = require "headroom.recent_cache"
local resp = require "headroom.resp"

local floor, format, min, max = math.floor, string.format, math.min, math.max

local SEAL = 2 ^ 40 -- above any number of requests
local DEMAND_S = 0.1
local KEPT_S, ASKING_S, RENEWING_S, NONE_S = 60, 1, 0.1, 0.1
local CACHED = 4096

local blocks = {}
local shared = ngx.shared.headroom
local cache = recent_cache.new(CACHED) -- id → block

local function opened(id, text)
  local list = resp.parse(text, 1)
  local reply = resp.parse(list[11], 1)
  local check = { tenant = list[1], endpoint = list[2], cost = list[3], subject = list[4], words = tonumber(list[5]) }
  local block = {
    id = id, counter = "n" .. id, about = "m" .. id, renewal = "r" .. id, check = check, starts_s = tonumber(list[6]),
    ends_s = tonumber(list[7]), calls = tonumber(list[8]), cost = tonumber(list[9]), unit = tonumber(list[10]),
    receipt = reply[#reply][4], decision = checks.decision(check, reply, #reply - 1),
  }
  block.size = min(block.calls, floor(block.cost / block.unit))
  block.shard = checks.shard_of(check.tenant)
  block.left = block.size -- as this worker saw it last
  return block
end

-- The block of a key; nil and its state if there is none to spend.
function blocks.current(key)
  local id = shared:get(key)
  if not id or id < 1 then return nil, id end
  local block = cache:get(id)
  if not block then
    local text = shared:get("m" .. id)
    if not text then
      shared:delete(key)
      return nil, nil
    end
    block = opened(id, text)
    cache:put(id, block)
  end
  return block
end

-- Takes one request of the block. Returns how many are left; nil if it is used up, ended or sealed.
-- The request is decided at the moment of the clock. A worker that is stopped right after it spends later what was
-- decided in time, unless the block was sealed meanwhile. To look at the clock again and put the request back would
-- race with the seal, and one request too many would be accounted.
function blocks.spend(block)
  if clock.now() >= block.ends_s then return nil end
  local left = shared:incr(block.counter, -1)
  if not left or left < 0 then return nil end
  block.left = left
  return left
end

-- Puts one request back. If the block was sealed meanwhile, that request stays accounted: never too few are.
function blocks.put_back(block)
  if clock.now() < block.ends_s then shared:incr(block.counter, 1) end
end

-- Ends a block for all workers. Returns how many requests were spent; nil if it was sealed before, false if it is gone.
function blocks.seal(block)
  local value = shared:incr(block.counter, -SEAL)
  if not value then return false end
  if value < -1.5 * SEAL then return nil end
  return block.size - max(0, value + SEAL)
end

function blocks.forget(block)
  shared:delete(block.counter)
  shared:delete(block.about)
end

-- The key's block is gone. If another worker has just got a new one for it, that one comes back at its end.
function blocks.clear(key) shared:delete(key) end

-- Whether the caller is the one who asks for a block.
function blocks.begin(key) return shared:safe_add(key, 0, ASKING_S) end

-- The same for a block that is still good.
function blocks.begin_renewal(block) return shared:safe_add(block.renewal, 0, RENEWING_S) end

function blocks.none(key) shared:safe_set(key, -1, NONE_S) end

-- Requests of a key in the current tenth of a second.
function blocks.demand(key)
  local name = "d" .. key
  local count = shared:incr(name, 1)
  if count then return count end
  shared:safe_add(name, 1, DEMAND_S)
  return 1
end

-- `answer`: the reply of hr_lease as Redis wrote it. Returns the block; nil and the block
-- if nobody can spend it: it is too small, or the memory is full.
function blocks.install(key, check, starts_s, granted, unit, answer)
  shared:safe_add("id", 0)
  local id = shared:incr("id", 1) or 0
  local text = resp.command {
    check.tenant, check.endpoint, check.cost, check.subject, tostring(check.words), format("%.6f", starts_s),
    format("%.6f", starts_s + granted[3] / 1000000), format("%d", granted[1]), format("%d", granted[2]), format("%d", unit),
    answer,
  }
  local block = opened(id, text)
  local good = id > 0 and block.size > 0 and shared:safe_set(block.counter, block.size, KEPT_S) and shared:safe_set(block.about, text, KEPT_S)
    and shared:safe_set(key, id, KEPT_S)
  if not good then
    blocks.forget(block)
    return nil, block
  end
  cache:put(id, block)
  return block
end

-- What is to be sent for settled blocks, shared so that it outlives its worker. False if the memory is full.
function blocks.queue(text) return shared:rpush("late", text) and true or false end

-- The oldest of it; nil: there is none.
function blocks.dequeue() return (shared:lpop("late")) end

-- Blocks that a worker left behind when it was killed: all that have ended a while ago.
function blocks.orphans(most)
  local found, now = {}, clock.now()
  for _, name in ipairs(shared:get_keys(most)) do
    local id = tonumber(string.match(name, "^m(%d+)$"))
    local text = id and shared:get(name)
    local block = text and opened(id, text)
    if block and now > block.ends_s + 1 then found[#found + 1] = block end
  end
  return found
end

return blocks
