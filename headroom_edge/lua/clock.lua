-- One TIME call a decision, whole microseconds. Callers' clocks are never used.
-- Writes nothing. (The simulation library replaces this file by clock_sim.lua.)
function H.with_time(body)
  return function(keys, args)
    if not H.bound then H.bind() end
    local time = call('TIME')
    return body(keys, args, time[1] * 1000000 + time[2])
  end
end
