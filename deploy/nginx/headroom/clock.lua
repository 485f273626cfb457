-- The clock that is never set. All workers of a machine read the same time, so they can share moments.
local ffi = require "ffi"

ffi.cdef [[
typedef struct { long seconds; long nanoseconds; } headroom_time;
int clock_gettime(int clock, headroom_time *now);
]]

local MONOTONIC = ({ Linux = 1, BSD = 4, OSX = 6 })[jit.os]
local moment = ffi.new("headroom_time[1]")
local C = ffi.C

local clock = {}

-- Seconds, with microseconds behind the point.
function clock.now()
  C.clock_gettime(MONOTONIC, moment)
  return tonumber(moment[0].seconds) + tonumber(moment[0].nanoseconds) / 1e9
end

return clock
