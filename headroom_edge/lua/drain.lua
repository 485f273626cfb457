-- hr_drain: exports the accounting of a shard in batches, each exactly once.
-- KEYS[1]  the shard's prefix
-- ARGV     TAKE id    makes the current counters batch `id`, unless a batch still waits
--          DONE id    deletes that batch, which is in Postgres now
-- reply    TAKE: the id of the batch to read now ('' if there is none); DONE: 1, or 0 if it was gone
-- writes   renames S:u to S:ub and S:a to S:ab; the id is the field `id` of S:ub; S:u starts empty.
--          If there are older counters (S:uo, see account.lua), they are exported first. While a cluster moves the
--          slot, nothing is taken, and DONE is refused if its keys are not here (reach.lua)
local function waiting(batch) return call('HGET', batch, 'id') or '' end

H.define('drain', { 'allow-oom' }, function(keys, args, now)
  local shard, action, id = keys[1], args[1], args[2]
  if action ~= 'TAKE' and action ~= 'DONE' or not id or id == '' then
    return H.fail('HRARGS', 'give TAKE or DONE, and the id of a batch')
  end
  local usage, batch = H.keys.usage(shard), H.keys.usage_batch(shard)
  if action == 'DONE' then
    if waiting(batch) ~= id then
      H.reach.prove(batch, usage) -- before it denies a batch that may be on the other node
      return 0
    end
    call('UNLINK', batch, H.keys.arrivals_batch(shard))
    return 1
  end
  local before = waiting(batch)
  if before ~= '' then return before end
  H.reach.stand_still(shard)
  -- Not while a batch waits: a drain that cannot reach Postgres still calls every few seconds, and counts must then
  -- become coarse.
  H.account.drained[shard] = now
  local older, ends, last = H.keys.usage_older(shard), H.keys.usage_ends(shard), format('%.0f', now)
  if call('EXISTS', older) == 1 then
    call('RENAME', older, batch)
    last = call('HGET', ends, 'older') or last
  elseif call('HLEN', usage) <= call('HEXISTS', usage, '_') then
    return ''
  else
    call('RENAME', usage, batch)
    H.account.open(shard)
  end
  call('HSET', batch, 'id', id)
  call('HSET', ends, 'batch', last)
  if call('EXISTS', H.keys.arrivals(shard)) == 1 then
    call('RENAME', H.keys.arrivals(shard), H.keys.arrivals_batch(shard))
  end
  return id
end)
