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

function keys.owner(shard, number) return shard .. ':' .. number end
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

local function plain(value)
  return #value <= 32 and match(value, '^[%w%.@_%-]+$')
end

function keys.value(dimension, value)
  if plain(value) then return value end
  if dimension == 'ip' and #value < 64 then
    local net = network(value)
    if net then return net end
  end
  return '#' .. sha1hex(value)
end

-- The subject part of a key: definition, the alternative that applied, its values. Of the alternatives
-- the first whose dimensions were all sent; none sent: the last one, with "absent" (empty) values.
function keys.subject(group, dimensions)
  local alternatives = group.d
  for a = 1, #alternatives do
    local names = alternatives[a]
    local first = dimensions[names[1]]
    if #names == 1 then
      if first then return group.tails[a] .. keys.value(names[1], first) end
    else
      local values, complete = {}, true
      for i = 1, #names do
        local value = dimensions[names[i]]
        complete = complete and value
        values[i] = value and keys.value(names[i], value) or ''
      end
      if complete or a == #alternatives then return group.tails[a] .. concat(values, ',') end
    end
  end
  return group.tails[#alternatives]
end

function keys.overflow(group) return group.tails[1] .. '*' end

-- A record's key, kept within 100 bytes; 128 with the suffix of a ring or of holders.
function keys.record(owner, scope, subject)
  local key = owner .. scope .. subject
  if #key <= 100 then return key end
  return owner .. ':#' .. sha1hex(scope .. subject)
end

function keys.ring(record, limit) return record .. ':l:' .. limit.id end
function keys.holders(record, limit) return record .. ':h:' .. limit.id end
