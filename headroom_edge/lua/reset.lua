-- hr_reset: clears what a subject has used of one limit, or of all.
-- KEYS[1]  the shard's prefix        ARGV  tenant, endpoint, limit name or *, [dimension, value]...
-- reply    how many limits were reset (global limits are shared, so they are not reset)
-- writes   the record with that limit empty; removes its ring or holders. Leases of the record and earlier receipts of
--          the limit give nothing back any more, because it could be what was reset. Refused while a cluster moves the slot (reach.lua)
local function clear(limit, state, record, now)
  for k = limit.o, limit.o + limit.kernel.width - 1 do state[k] = 0 end
  if limit.kernel.ring then call('UNLINK', H.keys.ring(record, limit)) end
  if limit.kernel.holders then call('UNLINK', H.keys.holders(record, limit)) end
  H.moved.clear(record, limit, now)
end

H.define('reset', { 'allow-oom' }, function(keys, args, now)
  local wanted = args[3]
  if not wanted or #args % 2 == 0 then
    return H.fail('HRARGS', 'give tenant, endpoint, a limit name or *, then pairs of dimension and value')
  end
  local shard, header, number, plan, endpoint, _, reason, problem = H.locate(keys[1], args[1], args[2], now)
  if problem then return problem end
  if reason then return 0 end
  H.reach.stand_still(shard)
  local records, count = H.records(shard, number, plan, H.dimensions(args, 4)), 0
  for i, group in ipairs(plan.g) do
    local text = not group.a and call('GET', records[i])
    if text then
      local state, before = H.record.read(group, text, now, records[i]), count
      local note = H.leases.note(group, records[i], now)
      for _, limit in ipairs(group.l) do
        if not limit.x and (wanted == '*' or limit.name == wanted) then
          clear(limit, state, records[i], now)
          count = count + 1
        end
      end
      if count > before then
        H.record.write(group, records[i], state, text)
        if note then H.leases.forget(group, records[i], note, now) end
      end
    end
  end
  return count
end)
