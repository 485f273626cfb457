-- The cap on new subjects: each tenant may create `cap` records per hour, counted by a bucket. Subjects that arrive
-- when it is empty share one overflow record. Subjects that have a record, and registered API keys, never do.
-- State: TAT in µs under S:n:<tenant>.
local newcomers = {}
H.newcomers = newcomers

local HOUR = 3600000000

-- Redirects the records of surplus subjects to the overflow record. Returns nil if no subject is new.
function newcomers.admit(shard, header, number, plan, records, values, dimensions, now)
  local groups = plan.g
  local found
  for i = 1, #groups do
    local group = groups[i]
    if group.d and not values[i + 2] then
      found = found or newcomers.open(shard, header, number, now)
      if H.keys.is_by_key(group, dimensions) and newcomers.registered(shard, number, dimensions.key) then
        found.price[i] = 0
      elseif found.tat + found.interval - now <= HOUR then
        found.tat = found.tat + found.interval
        found.price[i] = found.interval
      else
        records[i] = H.keys.overflow(group.a and H.keys.EVERYONE or shard .. ':' .. number, group)
        values[i + 2] = call('GET', records[i])
        found.overflow = true
      end
    end
  end
  return found
end

function newcomers.open(shard, header, number, now)
  local key = H.keys.newcomers(shard, number)
  return { key = key, tat = newcomers.tat(key, now), interval = HOUR / header.cap, price = {} }
end

-- A TAT more than an hour ahead means that the clock went backwards: start over.
function newcomers.tat(key, now)
  local tat = tonumber_(call('GET', key) or 0)
  if tat < now or tat > now + HOUR then return now end
  return tat
end

function newcomers.registered(shard, number, key)
  return key and call('HGET', H.keys.registered(shard), key) == number
end

-- Charges for the records that were created: all of them, or after a denial only the touched ones.
function newcomers.charge(found, touched, now)
  local total = 0
  for i, price in pairs(found.price) do
    if not touched or touched[i] then total = total + price end
  end
  if total == 0 then return end
  local tat = newcomers.tat(found.key, now) + total
  call('SET', found.key, format('%.0f', tat), 'PX', ceil((tat - now) / 1000) + 1000)
end
