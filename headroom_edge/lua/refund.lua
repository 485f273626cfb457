-- hr_refund: gives back what one decision charged, if it still counts.
-- KEYS[1]  the shard's prefix
-- ARGV     tenant, endpoint, the decision's receipt joined by colons, [dimension, value]...
-- reply    how many limits were refunded; 0 if it is too late, was done before, or the plan has changed
-- writes   the records, beside them how far buckets went back (moved.lua), and a mark (with TTL) that this receipt was
--          used. While a lease is out, buckets refund nothing,
--          because its charge may rest on the refunded one; after a refund of a bucket or a log, earlier leases of the record
--          give nothing back any more. Refused while a cluster moves the slot (reach.lua)

-- Time, plan mark, cost, and the TATs, the numbers of chains and the factors in the order in which hr_check wrote them; nil
-- if it is not a receipt.
local function open(receipt)
  local given, mark, cost, rest = match(receipt, '^(%d+):(%x+):(%d+)([%d:]*)$')
  if not given or #receipt > 1500 then return nil end
  local tats = {}
  for tat in gmatch(rest, ':(%d+)') do tats[#tats + 1] = tonumber_(tat) end
  return tonumber_(given), mark, tonumber_(cost), tats
end

local function refund_limit(limit, state, given, tat, now, cost, key, note, end_of)
  if limit.x or limit.m ~= 'e' or limit.kernel.holders then return false end
  if limit.P and note and note.ends > now then return false end
  local amount = limit.u and 1 or cost
  if limit.P then tat = end_of(limit, limit.o, tat) end
  return limit.kernel.refund(limit, state, limit.o, now, amount, given, tat, key)
end

local function refund_any(limit, state, given, tats, used, now, cost, record, note)
  local function end_of(of, o, tat) return H.moved.end_of(record, of, o, given, tat or 0, note and note.back[o], now) end
  if limit.chain then
    return limit.enforced and H.chains.refund(limit, state, now, limit.u or cost, given, tats, end_of)
  end
  local key = limit.kernel.ring and H.keys.ring(record, limit)
  return refund_limit(limit, state, given, tats[used], now, cost, key, note, end_of)
end

local function refund_group(group, record, given, tats, used, now, cost)
  local text = call('GET', record)
  if not text then return 0, used + group.tats end
  local state, count, is_dated = H.record.read(group, text, now, record), 0, false
  local note = H.leases.note(group, record, now)
  for _, limit in ipairs(group.l) do
    if limit.P and not limit.x then used = used + 1 end
    local before = { unpack_(state, limit.o, limit.o + limit.kernel.width - 1) }
    if refund_any(limit, state, given, tats, used, now, cost, record, note) then
      H.moved.compare(record, limit, before, state, now)
      -- Counters of windows may go down in any order; what lies in time may not.
      count, is_dated = count + 1, is_dated or limit.P ~= nil or limit.kernel.ring
    end
  end
  if count > 0 then
    H.record.write(group, record, state, text)
    if note and is_dated then H.leases.forget(group, record, note, now) end
  end
  return count, used
end

H.define('refund', { 'allow-oom' }, function(keys, args, now)
  local receipt = args[3] or ''
  local given, mark, cost, tats = open(receipt)
  if not given or #args % 2 == 0 then
    return H.fail('HRARGS', 'give tenant, endpoint, the receipt joined by colons, then its pairs of dimension and value')
  end
  local shard, header, number, plan, endpoint, default, reason, problem = H.locate(keys[1], args[1], args[2], now)
  if problem then return problem end
  if cost == '*' then cost = default end
  if reason or plan.mark ~= mark or given > now then return 0 end
  H.reach.stand_still(shard)
  local longest = 0
  for _, group in ipairs(plan.g) do longest = max(longest, tonumber_(group.ttl)) end
  local records, total, used = H.records(shard, number, plan, H.dimensions(args, 4)), 0, 0
  -- The mark is by records, not by arguments: the same subject may be sent in another order.
  local spent = H.keys.refunded(shard, number, receipt .. concat(records, ' '))
  if not call('SET', spent, '1', 'NX', 'PX', longest) then return 0 end
  if plan.scaled then H.adapt.recall(plan, tats) end
  for i, group in ipairs(plan.g) do
    local count
    count, used = refund_group(group, records[i], given, tats, used, now, cost)
    total = total + count
  end
  return total
end)
