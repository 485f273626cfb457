-- hr_profile: the plan of a tenant and endpoint as JSON, which a client needs to decide while this server is down.
-- KEYS[1]  the shard's prefix        ARGV  tenant, endpoint        writes nothing
-- reply    the JSON text, or an empty string if there is none
H.define('profile', { 'no-writes' }, function(keys, args, now)
  local shard, header, number, plan, endpoint, _, reason, problem = H.locate(keys[1], args[1] or '', args[2] or '', now)
  if problem then return problem end
  if reason then return '' end
  local text = call('HGET', H.keys.config(shard), 'p:' .. plan.id)
  if not text then H.plans.is_current(shard, header) end -- fails if the configuration is not here
  return text or ''
end)
