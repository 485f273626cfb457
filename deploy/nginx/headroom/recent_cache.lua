-- A bounded cache: keeps at least the last `size` keys used, and at most twice as many. It has two generations, so a
-- hit costs one look-up.
local recent_cache = {}
recent_cache.__index = recent_cache

function recent_cache.new(size)
  return setmetatable({ size = size, young = {}, old = {}, count = 0 }, recent_cache)
end

function recent_cache:get(key)
  local value = self.young[key]
  if value ~= nil then return value end
  value = self.old[key]
  if value ~= nil then self:put(key, value) end
  return value
end

function recent_cache:put(key, value)
  if self.young[key] == nil then
    if self.count >= self.size then self.old, self.young, self.count = self.young, {}, 0 end
    self.count = self.count + 1
  end
  self.young[key] = value
end

return recent_cache
