-- hr_bypass: puts limits into shadow mode for a while, for emergencies. Works while Postgres is down.
-- KEYS[1]  the shard's prefix
-- ARGV     JSON list of {scope: all|tenant|endpoint|limit, name, until_us, reason}, or '' for none
-- reply    the new token ('' if the shard is not ready; the switches apply as soon as it is)
-- writes   S:b, and the `+n` after the token, which makes every cached header stale. S:b is not deleted, because where a
--          token has a `+`, a missing S:b may be on the other node of a slot that moves. Then this is refused (reach.lua)
H.define('bypass', {}, function(keys, args)
  local shard, text = keys[1], args[1] == '' and '[]' or args[1]
  if args[1] ~= '' then
    local good, switches = pcall(json_decode, args[1] or '')
    if not good or type(switches) ~= 'table' then return H.fail('HRARGS', 'give a JSON list of switches') end
    for _, switch in ipairs(switches) do
      if type(switch) ~= 'table' or type(switch.until_us) ~= 'number' or type(switch.scope) ~= 'string'
        or switch.scope ~= 'all' and type(switch.name) ~= 'string' then
        return H.fail('HRARGS', 'every switch needs scope, name and until_us')
      end
    end
  end
  H.reach.prove(shard, H.keys.bypass(shard))
  call('SET', H.keys.bypass(shard), text)
  local token = call('GET', shard)
  if not token then return '' end
  local published, count = match(token, '^([^+]*)%+?(%d*)$')
  token = published .. '+' .. format('%d', (tonumber_(count) or 0) + 1)
  call('SET', shard, token)
  return token
end)
