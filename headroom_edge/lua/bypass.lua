-- hr_bypass: puts limits into shadow mode for a while, for emergencies. Works while Postgres is down.
-- KEYS[1]  the shard's prefix
-- ARGV     JSON list of {scope: all|tenant|endpoint|limit, name, until_us, reason}, or '' for none
-- reply    the new token ('' if the shard is not ready; the switches apply as soon as it is)
-- writes   S:b, and the `+n` after the token, which makes every cached header stale
H.define('bypass', {}, function(keys, args)
  local shard = keys[1]
  if args[1] == '' then
    call('DEL', H.keys.bypass(shard))
  else
    local good, switches = pcall(json_decode, args[1] or '')
    if not good or type(switches) ~= 'table' then return H.fail('HRARGS', 'give a JSON list of switches') end
    for _, switch in ipairs(switches) do
      if type(switch) ~= 'table' or type(switch.until_us) ~= 'number' or type(switch.scope) ~= 'string'
        or switch.scope ~= 'all' and type(switch.name) ~= 'string' then
        return H.fail('HRARGS', 'every switch needs scope, name and until_us')
      end
    end
    call('SET', H.keys.bypass(shard), args[1])
  end
  local token = call('GET', shard)
  if not token then return '' end
  local published, count = match(token, '^([^+]*)%+?(%d*)$')
  token = published .. '+' .. format('%d', (tonumber_(count) or 0) + 1)
  call('SET', shard, token)
  return token
end)
