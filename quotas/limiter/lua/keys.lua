-- The only Lua file that spells a key (twin of keys.py). KEYS[1] is the shard's prefix, `hr:{17}`.
-- Subject values are free text from the internet: whatever is long or odd is hashed, behind a `#` that
-- no plain value can hold, so no value leaves its tenant's shard or meets another's record.
local keys = {}
H.keys = keys

keys.ALL = 'hr:{all}'

function keys.tenants(shard) return shard .. ':t' end
function keys.config(shard) return shard .. ':c' end
function keys.bypass(shard) return shard .. ':b' end
function keys.registered(shard) return shard .. ':k' end
function keys.usage(shard) return shard .. ':u' end
function keys.usage_batch(shard) return shard .. ':ub' end
function keys.arrivals(shard) return shard .. ':a' end
function keys.arrivals_batch(shard) return shard .. ':ab' end
function keys.denials(shard, number) return shard .. ':d:' .. number end
function keys.newcomers(shard, number) return shard .. ':n:' .. number end
function keys.refunded(shard, number, receipt) return shard .. ':r:' .. number .. ':' .. sha1hex(receipt) end
function keys.staged(shard, version, part) return shard .. ':s:' .. version .. ':' .. part end
function keys.enforcers() return keys.ALL .. ':e' end
function keys.enforcer_info() return keys.ALL .. ':i' end

keys.EVERYONE = keys.ALL .. ':g'

-- The network an IPv6 address is counted by (/64), or the IPv4 address inside it; nil: not an address.
local function network(text)
  local v4 = match(text, '^::[fF][fF][fF][fF]:(%d+%.%d+%.%d+%.%d+)$')
  if v4 then return v4 end
  text = match(text, '^([^%%]+)')
  if not text or not match(text, '^[%x:%.]+$') then return nil end
  local head, tail = match(text, '^(.-)::(.*)$')
  local groups, behind = {}, 0
  for group in gmatch(head or text, '[^:]+') do groups[#groups + 1] = group end
  if tail then
    for group in gmatch(tail, '[^:]+') do behind = behind + (match(group, '%.') and 2 or 1) end
    for _ = #groups + behind + 1, 8 do groups[#groups + 1] = '0' end
    for group in gmatch(tail, '[^:]+') do groups[#groups + 1] = group end
  elseif #groups < 7 then
    return nil
  end
  local out = '~'
  for i = 1, 4 do
    if not groups[i] or not match(groups[i], '^%x%x?%x?%x?$') then return nil end
    out = out .. rep('0', 4 - #groups[i]) .. groups[i]:lower()
  end
  return out
end

function keys.value(dimension, value)
  if #value <= 32 and match(value, '^[%w%.@_%-]+$') then return value end
  if dimension == 'ip' and #value < 64 then
    local net = network(value)
    if net then return net end
  end
  return '#' .. sha1hex(value)
end

-- The first alternative whose dimensions were all sent, with its values; none: the last one, in which
-- what was not sent is empty ("absent"), never left out.
local function values_of(names, dimensions)
  local values, complete = {}, true
  for i = 1, #names do
    local value = dimensions[names[i]]
    complete = complete and value
    values[i] = value and keys.value(names[i], value) or ''
  end
  return concat(values, ','), complete
end

local function subject(group, dimensions)
  local alternatives = group.d
  for a = 1, #alternatives do
    local values, complete = values_of(alternatives[a], dimensions)
    if complete or a == #alternatives then return group.paths[a], values end
  end
end

-- Kept within 100 bytes; 128 with the suffix of a ring or of holders.
local function bounded(owner, path, value)
  if #owner + #path + #value <= 100 then return owner .. path .. value end
  return owner .. ':#' .. sha1hex(path .. value)
end

-- A record's key: owner, scope, and unless it is the owner's as a whole, definition, alternative and values.
function keys.record(owner, group, dimensions)
  if not group.d then return owner .. group.scope end
  local single = group.single
  local value = single and dimensions[single]
  if value and #value <= 32 and not find(value, '[^%w%.@_%-]') and value ~= '' then
    return owner .. group.paths[1] .. value
  end
  return bounded(owner, subject(group, dimensions))
end

function keys.overflow(owner, group) return bounded(owner, group.paths[1], '*') end

function keys.ring(record, limit) return record .. ':l:' .. limit.id end
function keys.holders(record, limit) return record .. ':h:' .. limit.id end
