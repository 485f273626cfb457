-- Redis keys. No other Lua file builds one. Must match keys.py. KEYS[1] is the shard's prefix, such as `hr:{17}`.
-- Subject values are free text from the internet. Long or unusual values are hashed and prefixed with `#`, which no
-- plain value can contain, so no value can reach another shard or collide with another subject's record.
local keys = {}
H.keys = keys

keys.ALL = 'hr:{all}'

function keys.shard(number) return format('hr:{%d}', number) end
function keys.tenants(shard) return shard .. ':t' end
function keys.config(shard) return shard .. ':c' end
function keys.bypass(shard) return shard .. ':b' end
function keys.registered(shard) return shard .. ':k' end
function keys.usage(shard) return shard .. ':u' end
function keys.usage_batch(shard) return shard .. ':ub' end
function keys.usage_older(shard) return shard .. ':uo' end
function keys.usage_ends(shard) return shard .. ':ue' end
function keys.arrivals(shard) return shard .. ':a' end
function keys.arrivals_batch(shard) return shard .. ':ab' end
function keys.touched(shard) return shard .. ':q' end
function keys.touched_batch(shard) return shard .. ':qb' end
function keys.factors(shard) return shard .. ':f' end
-- The loops that compute the factors, by endpoint, and their states (health.lua).
function keys.loops() return keys.ALL .. ':l' end
function keys.loop_states() return keys.ALL .. ':w' end
-- Nothing is ever stored here (reach.lua).
function keys.nowhere(shard) return shard .. ':-' end
function keys.denials(shard, number) return shard .. ':d:' .. number end
function keys.newcomers(shard, number) return shard .. ':n:' .. number end
-- A receipt that was refunded or settled.
function keys.refunded(shard, number, receipt) return shard .. ':r:' .. number .. ':' .. sha1hex(receipt) end
function keys.staged(shard, version, part) return shard .. ':s:' .. version .. ':' .. part end
function keys.enforcers() return keys.ALL .. ':e' end
function keys.enforcer_info() return keys.ALL .. ':i' end

keys.EVERYONE = keys.ALL .. ':g'

-- The 16-bit groups of a part of an IPv6 address; an IPv4 address at its end counts as two. nil if it is invalid.
local function groups_of(text)
  local groups = {}
  if text == '' then return groups end
  for group in gmatch(text .. ':', '([^:]*):') do
    local a, b, c, d = match(group, '^(%d+)%.(%d+)%.(%d+)%.(%d+)$')
    if a then
      if a + 0 > 255 or b + 0 > 255 or c + 0 > 255 or d + 0 > 255 then return nil end
      groups[#groups + 1], groups[#groups + 2] = a * 256 + b, c * 256 + d
    elseif match(group, '^%x%x?%x?%x?$') then
      groups[#groups + 1] = tonumber_(group, 16)
    else
      return nil
    end
  end
  return groups
end

local function address_of(text)
  local head, tail = match(text, '^(.-)::(.*)$')
  local groups = groups_of(head or text)
  if not head then return groups and #groups == 8 and groups or nil end
  local behind = groups_of(tail)
  if not groups or not behind or #groups + #behind > 7 then return nil end
  for _ = #groups + #behind + 1, 8 do groups[#groups + 1] = 0 end
  for i = 1, #behind do groups[#groups + 1] = behind[i] end
  return groups
end

-- An IPv6 address's /64, or the IPv4 address mapped to it; nil if it is not an IPv6 address.
local function network(text)
  local groups = address_of(match(text, '^([^%%]*)'))
  if not groups then return nil end
  local a, b, c, d, e, f, g, h = unpack_(groups)
  if a + b + c + d + e == 0 and f == 65535 then
    return format('%d.%d.%d.%d', floor(g / 256), g % 256, floor(h / 256), h % 256)
  end
  return format('~%04x%04x%04x%04x', a, b, c, d)
end

function keys.value(dimension, value)
  if #value <= 32 and match(value, '^[%w%.@_%-]+$') then return value end
  if dimension == 'ip' and #value < 64 then
    local net = network(value)
    if net then return net end
  end
  return '#' .. sha1hex(value)
end

-- The values of an alternative's dimensions, and whether all of them were sent. An absent dimension has an empty value.
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

-- Whether the first complete alternative is the API key alone.
function keys.is_by_key(group, dimensions)
  for _, names in ipairs(group.d) do
    local complete = true
    for _, name in ipairs(names) do complete = complete and dimensions[name] end
    if complete then return #names == 1 and names[1] == 'key' end
  end
  return false
end

-- Precomputes the parts of a group's keys that do not depend on the request: `:<scope>` (nothing for `*`), followed
-- by `/<definition>:` or, if there are several alternatives, `/<definition>:<letter>:`.
function keys.prepare(group)
  group.scope, group.paths = group.c == '0' and '' or ':' .. group.c, {}
  local alternatives = group.d or {}
  for a = 1, #alternatives do
    local letter = #alternatives > 1 and string.char(96 + a) .. ':' or ''
    group.paths[a] = group.scope .. '/' .. group.t .. ':' .. letter
  end
  -- `single` allows a shortcut (H.records). It must not skip `bounded`, so long paths do not get it.
  if group.d and #group.d[1] == 1 and #group.paths[1] <= 44 then
    group.single, group.path = group.d[1][1], group.paths[1]
  end
end

-- Keys have at most 100 bytes, or 128 with the suffix of a ring or of holders.
local function bounded(owner, path, value)
  if #owner + #path + #value <= 100 then return owner .. path .. value end
  return owner .. '/#' .. sha1hex(path .. value)
end

-- A record's key: owner and scope; unless the subject is the owner itself, also definition, alternative and values.
function keys.record(owner, group, dimensions)
  if not group.d then return owner .. group.scope end
  return bounded(owner, subject(group, dimensions))
end

function keys.overflow(owner, group) return bounded(owner, group.paths[1], '*') end

-- The part of a record's key after its owner.
function keys.subject_of(record, shard, group)
  return sub(record, (group.a and #keys.EVERYONE or #shard + 6) + 1)
end

function keys.ring(record, limit) return record .. ':l:' .. limit.id end
function keys.leases(record) return record .. ':e' end
function keys.moved(record) return record .. ':b' end
function keys.holders(record, limit) return record .. ':h:' .. limit.id end
