-- hr_live: what the limits that adapt are at this moment.
-- KEYS[1]  the shard's prefix        ARGV  tenant, endpoint, [dimension, value]...        writes nothing
--          Refused while a cluster moves the slot and not all records are here (reach.lua)
-- reply    one row per such limit of the plan: name, kind, live value, least, most, reason, µs, µs. Concurrency: the target and
--          when it last changed (0: never). Rate: values in 1/1000 of the limit, the loop's mode or `pinned`, 0, and when
--          the factor ends (0: there is none)
H.define('live', { 'no-writes' }, function(keys, args, now)
  if #args < 2 or #args % 2 > 0 then
    return H.fail('HRARGS', 'give tenant, endpoint, then pairs of dimension and value')
  end
  local shard, header, number, plan, endpoint, _, reason, problem = H.locate(keys[1], args[1], args[2], now)
  if problem then return problem end
  if reason then return {} end
  local text = plan.scaled and call('GET', header.factors_key)
  local records, rows = H.records(shard, number, plan, H.dimensions(args, 3)), {}
  if plan.adapts then H.reach.prove(shard, unpack_(records)) end
  for i, group in ipairs(plan.g) do
    local state
    for _, limit in ipairs(group.l) do
      if limit.kernel.adapts and not limit.x and limit.m ~= 'c' then
        state = state or H.record.read(group, call('GET', records[i]) or '', now, records[i])
        rows[#rows + 1] = { limit.name, 'concurrency', limit.kernel.live(limit, state, limit.o, now) }
      elseif limit.fa and not limit.x and limit.m ~= 'c' then
        rows[#rows + 1] = { limit.name, 'rate', H.adapt.live(limit, text, now) }
      end
    end
  end
  return rows
end)
