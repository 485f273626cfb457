-- hr_release: releases a concurrency slot before its hold ends.
-- KEYS[1]  the shard's prefix        ARGV  tenant, endpoint, holder, [dimension, value]...
-- reply    how many slots were released (0: none was held, or it had expired)
-- writes   removes the holder from each concurrency limit of the plan
H.define('release', { 'allow-oom' }, function(keys, args, now)
  local holder = args[3]
  if not holder or #args % 2 == 0 then
    return H.fail('HRARGS', 'give tenant, endpoint, holder, then pairs of dimension and value')
  end
  local shard, header, number, plan, endpoint, _, reason, problem = H.locate(keys[1], args[1], args[2], now)
  if problem then return problem end
  if reason then return 0 end
  local records, released = H.records(shard, number, plan, H.dimensions(args, 4)), 0
  if plan.holds then H.decision.prove_beside(shard, plan, records) end
  for i, group in ipairs(plan.g) do
    for _, limit in ipairs(group.l) do
      if limit.kernel.holders then
        released = released + call('ZREM', H.keys.holders(records[i], limit), holder)
      end
    end
  end
  return released
end)
