-- The server's clock in whole microseconds, read once per call. Callers' clocks are never used.
-- Writes nothing. (The simulation library has clock_sim.lua instead of this file.)
function H.with_time(body)
  return function(keys, args)
    if not H.bound then H.bind() end
    local time = call('TIME')
    return body(keys, args, time[1] * 1000000 + time[2])
  end
end
