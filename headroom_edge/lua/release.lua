-- hr_release: releases a concurrency slot before its hold ends.
-- KEYS[1]  the shard's prefix        ARGV  tenant, endpoint, holder, [ok, drop or ignore], [dimension, value]...
--          The result is how the request ended, for limits that adapt: answered; refused by the service or timed out; or not to
--          be counted, which is also meant without a result
-- reply    how many slots were released (0: none was held, or it had expired)
-- writes   removes the holder from each concurrency limit of the plan; with a result, the records (with TTL) of limits that
--          adapt. A second release of a holder finds no slot, so one request counts once
local RESULTS = { ok = true, drop = true, ignore = true }

-- Fails if the slots, or the records that a sample changes, are not here while a cluster moves the slot.
local function prove(shard, plan, records, samples)
  H.decision.prove_beside(shard, plan, records)
  if not samples then return end
  local names = { shard }
  for i, group in ipairs(plan.g) do
    if group.adapts then names[#names + 1] = records[i] end
  end
  if #names > 1 then H.reach.prove(unpack_(names)) end
end

-- The latency of a live holder by the server's clock alone: its expiry tells when it started, after a wait. nil if it
-- started before the present parameters (its hold was another) or if the clock went back.
local function latency_of(limit, expiry, now)
  local start = expiry - limit.H
  if start > now or start < limit.T then return nil end
  return now - start
end

-- The slots that the holder has in a group, with the record's state if a sample changes it. Writes nothing.
local function find_slots(group, record, holder, now, samples)
  local found = {}
  for _, limit in ipairs(group.l) do
    if limit.kernel.holders then
      local key = H.keys.holders(record, limit)
      local score = call('ZSCORE', key, holder)
      if score then found[#found + 1] = { limit = limit, key = key, expiry = tonumber_(score) } end
    end
  end
  if samples and group.adapts and #found > 0 then
    found.text = call('GET', record)
    found.state = found.text and H.record.read(group, found.text, now, record)
  end
  return found
end

local function sample(group, record, slots, now, is_drop)
  local has_changed = false
  for _, slot in ipairs(slots) do
    local limit = slot.limit
    local latency = limit.kernel.adapts and slot.expiry > now and latency_of(limit, slot.expiry, now)
    if latency then
      local in_flight = call('ZCOUNT', slot.key, format('(%.0f', now), '+inf')
      limit.kernel.sample(limit, slots.state, limit.o, now, in_flight, latency, is_drop)
      has_changed = true
    end
  end
  if has_changed then H.record.write(group, record, slots.state, slots.text) end
end

H.define('release', { 'allow-oom' }, function(keys, args, now)
  local holder, result, first = args[3], 'ignore', 4
  if #args % 2 == 0 then result, first = args[4], 5 end
  if not holder or not RESULTS[result or ''] then
    return H.fail('HRARGS', 'give tenant, endpoint, holder, maybe ok, drop or ignore, then pairs of dimension and value')
  end
  local shard, header, number, plan, endpoint, _, reason, problem = H.locate(keys[1], args[1], args[2], now)
  if problem then return problem end
  if reason or not plan.holds then return 0 end
  local samples = plan.adapts and result ~= 'ignore'
  local records, released, slots = H.records(shard, number, plan, H.dimensions(args, first)), 0, {}
  prove(shard, plan, records, samples)
  for i, group in ipairs(plan.g) do slots[i] = find_slots(group, records[i], holder, now, samples) end
  for i, group in ipairs(plan.g) do
    if slots[i].state then sample(group, records[i], slots[i], now, result == 'drop') end
    for _, slot in ipairs(slots[i]) do released = released + call('ZREM', slot.key, holder) end
  end
  return released
end)
