-- hr_observe: collects response times and statuses, as measured by the services' processes.
-- KEYS[1]  hr:{all}
-- ARGV     repeated: age, class, histogram, endpoint. Responses that began `age` ms ago with a status of that first
--          digit, as `<bucket>:<count>,…` of their microseconds (observations.py)
-- reply    how many were stored; none if any of them is invalid
-- writes   hr:{all}:a, a list of `<second in hex> <class> <histogram> <endpoint>`, at most KEPT, and their number in
--          field `o` of hr:{all}:u. This has the form of a shard's accounting, so hr_drain can export it. Refused while
--          a cluster moves the slot and not both keys are here (reach.lua). For endpoints with limits that adapt, also the
--          states of their loops (health.lua)
local KEPT, AT_ONCE = 50000, 1000
local OLDEST_MS, HISTOGRAM, ENDPOINT = 600000, 4096, 800
local TOO_LONG = '%d%d%d%d%d%d%d%d%d%d' -- a number that no process counts in a second

local function item(age, class, histogram, endpoint, now)
  local is_whole = endpoint and #histogram <= HISTOGRAM and #endpoint > 0 and #endpoint <= ENDPOINT
  local ms = H.whole(age, 0, OLDEST_MS)
  if not is_whole or not ms or not match(class, '^%d$') or not match(histogram, '^%d+:%d+[%d:,]*$') then return nil end
  if find(histogram, TOO_LONG) then return nil end
  return { second = floor((now - ms * 1000) / 1000000), class = class, histogram = histogram, endpoint = endpoint }
end

local function text_of(one) return format('%08x %s %s %s', one.second, one.class, one.histogram, one.endpoint) end

H.define('observe', {}, function(keys, args, now)
  if keys[1] ~= H.keys.ALL or #args == 0 or #args % 4 > 0 or #args > 4 * AT_ONCE then
    return H.fail('HRARGS', 'the key is ' .. H.keys.ALL .. '; give age, class, histogram and endpoint, 1 to 1000 times')
  end
  local observed, items = {}, {}
  for i = 1, #args, 4 do
    local one = item(args[i], args[i + 1], args[i + 2], args[i + 3], now)
    if not one then
      return H.fail('HRARGS', 'an age of 0 to 600000 ms, a digit, bucket:count,… and the name of an endpoint are needed')
    end
    observed[#observed + 1], items[#items + 1] = one, text_of(one)
  end
  local list = H.keys.arrivals(H.keys.ALL)
  H.reach.prove(list, H.keys.usage(H.keys.ALL))
  if call('RPUSH', list, unpack_(items)) > KEPT then call('LTRIM', list, -KEPT, -1) end
  call('HINCRBY', H.keys.usage(H.keys.ALL), 'o', #items)
  H.health.observe(observed, now)
  return #items
end)
