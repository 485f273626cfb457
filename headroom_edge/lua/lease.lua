-- hr_lease: one decision as by hr_check, and a block of units that the caller may spend without asking until it ends.
-- KEYS[1]  the shard's prefix
-- ARGV     tenant, endpoint, cost (as in hr_check), wanted calls, wanted cost, longest length in ms; then the settlement
--          of the caller's last block: calls spent, cost spent, calls back, cost back, its receipt ('' and four 0: there
--          is nothing to settle); [ALL], [dimension, value]...
-- reply    the reply of hr_check, which does not count the block; then a list: calls granted, cost granted, how long
--          the block lasts in µs from now (0: there is none; -1: this plan never has one), its receipt, and the dimensions that the plan uses
-- reads    token, tenant entry, every record, their notes and the mark of the receipt, and whether all other keys that it
--          writes are here, before the first write (reach.lua)
-- writes   what hr_check writes; the records with what came back and the block, charged as if spent at its end; a note
--          beside each record (leases.lua); the accounting of what was spent; a mark (with TTL) of the settled receipt
--
-- Limits on requests are charged the calls of a block, all others its cost. A caller stops when either is used up, and
-- settles each block exactly once. There is no block where a limit of the plan is never leased, or would deny, or has
-- little left; nor while a bypass holds or a factor is in force, nor for sampled subjects and those that share an overflow record.
local decision, leases, plans = H.decision, H.leases, H.plans
local outs, verdicts = decision.outs, decision.verdicts

local MOST = 1000000000
local LEASE_ARGUMENTS = 'give tenant, endpoint, cost, wanted calls and cost, ms, calls and cost spent, calls and cost '
  .. 'back, receipt, then at most 32 pairs of dimension and value'
local RETURN_ARGUMENTS = 'give tenant, endpoint, calls and cost spent, calls and cost back, receipt, then at most 32 pairs '
  .. 'of dimension and value'
-- A receipt is settled within this time or not at all; its mark is kept as long.
local KEPT_US, KEPT_MS = 120000000, '120000'

-- A receipt is opaque to callers: time, tenant, plan, granted calls and cost, hash of the records, a serial number, and
-- one number for each limit.
local function open_receipt(text)
  if #text > 1000 then return nil end
  local given, number, mark, calls, cost, owner, rest =
    match(text, '^(%d+):(%w+):(%x+):(%d+):(%d+):(%x+):%d+([%d:]*)$')
  if not given then return nil end
  local numbers = {}
  for value in gmatch(rest, ':(%d+)') do numbers[#numbers + 1] = tonumber_(value) end
  return {
    given = tonumber_(given), number = number, mark = mark, calls = tonumber_(calls), cost = tonumber_(cost),
    owner = owner, numbers = numbers, text = text,
  }
end

-- The settlement at args[at] to args[at + 4]; nil if there is nothing to settle; false and an error if it is nonsense.
local function settlement_of(args, at, usage)
  local spent_calls, spent_cost = H.whole(args[at], 0, MOST), H.whole(args[at + 1], 0, MOST)
  local back_calls, back_cost = H.whole(args[at + 2], 0, MOST), H.whole(args[at + 3], 0, MOST)
  if not (spent_calls and spent_cost and back_calls and back_cost and args[at + 4]) then
    return false, H.fail('HRARGS', usage)
  end
  if args[at + 4] == '' then
    if spent_calls + spent_cost + back_calls + back_cost == 0 then return nil end
    return false, H.fail('HRARGS', 'what was spent and what comes back need the receipt of their block')
  end
  local found = open_receipt(args[at + 4])
  if not found then return false, H.fail('HRARGS', 'this is no receipt of hr_lease') end
  if spent_calls + back_calls > found.calls or spent_cost + back_cost > found.cost then
    return false, H.fail('HRARGS', 'more was spent or comes back than the block had')
  end
  found.spent_calls, found.spent_cost, found.back_calls, found.back_cost = spent_calls, spent_cost, back_calls, back_cost
  return found
end

-- Tells subjects apart in receipts.
local function owner_of(found)
  found.owner = found.owner or sub(sha1hex(concat(found.records, ' ')), 1, 8)
  return found.owner
end

local function mark_of(found, settlement)
  found.mark = found.mark or H.keys.refunded(found.shard, found.number, settlement.text)
  return found.mark
end

-- The keys of one read: token, usage, records, their notes, the mark of the receipt; if they have calendar quotas, also
-- the list of touched records; last, if they adapt, the factors.
local function names_of(found, settlement)
  local names, count = { found.shard, found.header.usage_key }, #found.records
  for i = 1, count do
    names[2 + i], names[2 + count + i] = found.records[i], H.keys.leases(found.records[i])
  end
  if settlement then names[#names + 1] = mark_of(found, settlement) end
  if found.plan.calendars then names[#names + 1] = found.header.touched_key end
  if found.plan.scaled then names[#names + 1] = found.header.factors_key end
  return names, #names
end

-- The plan, with the values of all keys that the call needs, read before anything is written. Or nil, and an error.
local function find_call(shard, args, first, settlement, now)
  local found
  for try = 1, 2 do
    local problem
    found = {}
    found.shard, found.header, found.number, found.plan, found.endpoint, found.default, found.reason, problem, found.ends =
      H.locate(shard, args[1], args[2], now)
    if problem then return nil, problem end
    if found.reason then return found end
    found.dimensions = H.dimensions(args, first)
    found.records = H.records(found.shard, found.number, found.plan, found.dimensions)
    local names, last = names_of(found, settlement)
    found.values = call('MGET', unpack_(names))
    if found.plan.scaled then H.adapt.read(found.plan, found.values[last], now) end
    if found.values[1] == found.header.token then break end
    plans.drop(found.shard)
    if try == 2 then
      found.header, found.reason = nil, 'not_ready'
      return found
    end
  end
  if found.plan.beside then decision.prove_beside(found.shard, found.plan, found.records) end
  found.notes = {}
  for i, group in ipairs(found.plan.g) do
    found.notes[i] = leases.open(group, found.values[2 + #found.records + i], now)
  end
  return found
end

-- Whether the receipt is settled by this call. A receipt of another tenant is left alone: a tenant that was unknown may
-- have been created meanwhile.
local function is_due(found, settlement, now)
  if not settlement or settlement.number ~= found.number or now - settlement.given >= KEPT_US then return false end
  return not found.values[3 + 2 * #found.records]
end

-- Whether units may come back. After a change of the plan, or a step of the clock, what was spent is still accounted.
local function is_good(found, settlement, now)
  local plan = found.plan
  return settlement.mark == plan.mark and settlement.given <= now and #settlement.numbers == plan.places
end

local function is_of_another(found, settlement)
  return settlement and settlement.number == found.number and settlement.mark == found.plan.mark
    and settlement.owner ~= owner_of(found)
end

local ANOTHER = 'this receipt belongs to another subject; keep one block per tenant, endpoint and values of dimensions'

local function account_spent(found, settlement, now)
  call('SET', mark_of(found, settlement), '1', 'PX', KEPT_MS)
  if settlement.spent_calls == 0 then return end
  H.account.count(found.shard, found.header.usage_key, now, found.number, found.endpoint, 'a', settlement.spent_cost,
    settlement.spent_calls)
end

-- A suspended tenant has no plan, but what was spent before still counts.
local function settle_without_plan(found, settlement, name, now)
  if not settlement or not found.header or settlement.number ~= found.number then return 0 end
  H.reach.stand_still(found.shard)
  local is_new = not call('GET', mark_of(found, settlement))
  if not is_new or now - settlement.given >= KEPT_US then return 0 end
  local known = found.header.endpoints[name]
  found.endpoint = known and known[1] or '000'
  account_spent(found, settlement, now)
  return 1
end

local function without_block(reply, plan)
  reply[#reply + 1] = { 0, 0, plan and plan.lease_us == 0 and -1 or 0, '', plan and plan.dimensions or {} }
  return reply
end

local made = 0

-- The start of a receipt; the numbers of the limits follow.
local function new_receipt(found, calls, cost, now)
  made = made + 1
  return {
    format('%.0f', now), found.number, found.plan.mark, format('%d', calls), format('%d', cost),
    owner_of(found), format('%d', made),
  }
end

-- Calls, cost and length of the block that is granted beside an allowed request; nil if there is none.
local function block_for(found, wants, overflow, switched, now)
  local plan = found.plan
  local lasts = min(wants.longest_us, plan.lease_us, found.ends and found.ends - now - 1 or huge)
  if lasts <= 0 or switched or overflow or H.adapt.is_cut(plan) then return nil end
  local count = decision.all_admit()
  if not count or decision.is_sampled(plan, found.header, found.records) then return nil end
  local calls, cost, us = leases.block(verdicts, count, outs, wants.calls, wants.cost, lasts, now)
  return calls, cost, us, count
end

local function keep_notes(found, changed)
  for i, group in ipairs(found.plan.g) do
    if changed[i] then leases.keep(group, found.records[i], found.notes[i]) end
  end
end

local function decide(found, settlement, wants, cost, rows, args, now)
  local plan, records, header = found.plan, found.records, found.header
  local is_due_now, changed = is_due(found, settlement, now), {}
  local newcomers = H.newcomers.admit(found.shard, header, found.number, plan, records, found.values, found.dimensions, now)
  local overflow = newcomers and newcomers.overflow
  -- An overflow record was never leased, so nothing comes back to it.
  local before = is_due_now and not overflow and is_good(found, settlement, now) and function(group, i, state, record)
    changed[i] = leases.give_back(group, record, state, found.notes[i], settlement, now)
    state.mended = state.mended or changed[i]
  end
  local holder = decision.holder_of(plan, found.dimensions, now)
  local switched = header.bypass and decision.bypassed(header, args[1], args[2], now)
  decision.judge(plan, records, found.values, cost, now, holder, switched, found.class, before)
  local why = decision.reason(overflow)
  local reply = decision.answer(plan, header.revision, why, cost, now, holder, rows)
  local calls, block_cost, lasts, count = block_for(found, wants, overflow, switched, now)
  local receipt = calls and new_receipt(found, calls, block_cost, now)
  local charge = calls and function()
    leases.charge(verdicts, count, outs, found.notes, calls, block_cost, lasts, now, receipt)
    for i = 1, #records do changed[i] = true end
  end
  if is_due_now then account_spent(found, settlement, now) end
  decision.settle(found.shard, header, found.number, found.endpoint, plan, records, newcomers, why, cost, now, holder, charge)
  keep_notes(found, changed)
  if not calls then return without_block(reply, plan) end
  reply[#reply + 1] = { calls, block_cost, lasts, concat(receipt, ':'), plan.dimensions }
  return reply
end

H.define('lease', {}, function(keys, args, now)
  if #args < 11 then return H.fail('HRARGS', LEASE_ARGUMENTS) end
  local cost, problem, first, rows = H.arguments(args, 3, 11)
  if not cost then return problem end
  local wanted_calls, wanted_cost = H.whole(args[4], 0, MOST), H.whole(args[5], 0, MOST)
  local ms = H.whole(args[6], 0, MOST)
  if not (wanted_calls and wanted_cost and ms) then return H.fail('HRARGS', LEASE_ARGUMENTS) end
  local settlement, found
  settlement, problem = settlement_of(args, 7, LEASE_ARGUMENTS)
  if problem then return problem end
  found, problem = find_call(keys[1], args, first, settlement, now)
  if problem then return problem end
  if found.reason then
    settle_without_plan(found, settlement, args[2], now)
    return without_block(decision.turned_away(found.shard, found.header, found.number, found.reason, now))
  end
  if is_of_another(found, settlement) then return H.fail('HRARGS', ANOTHER) end
  if found.plan.G and found.dimensions.GLOBAL ~= 'paid' then
    return without_block(decision.refused('global', found.header.revision))
  end
  if found.plan.chains then
    found.class, problem = H.priority_of(found.plan, found.dimensions)
    if problem then return problem end
  end
  if cost == '*' then cost = found.default end
  local wants = { calls = wanted_calls, cost = wanted_cost, longest_us = ms * 1000 }
  return decide(found, settlement, wants, cost, rows, args, now)
end)

-- hr_return: settles a block without asking for another one.
-- KEYS[1]  the shard's prefix
-- ARGV     tenant, endpoint, calls spent, cost spent, calls back, cost back, receipt, [dimension, value]...
-- reply    1 if the receipt was settled now; 0 if it was before, is older than two minutes, or the tenant is gone
-- writes   the records with what came back, and their notes; the accounting of what was spent; the mark of the receipt
H.define('return', { 'allow-oom' }, function(keys, args, now)
  local settlement, problem = settlement_of(args, 3, RETURN_ARGUMENTS)
  if problem then return problem end
  if not settlement or #args % 2 == 0 or #args > 71 then return H.fail('HRARGS', RETURN_ARGUMENTS) end
  local found
  found, problem = find_call(keys[1], args, 8, settlement, now)
  if problem then return problem end
  if found.reason then return settle_without_plan(found, settlement, args[2], now) end
  if is_of_another(found, settlement) then return H.fail('HRARGS', ANOTHER) end
  if not is_due(found, settlement, now) then return 0 end
  local states, changed = {}, {}
  if is_good(found, settlement, now) then
    for i, group in ipairs(found.plan.g) do
      local text, record = found.values[2 + i], found.records[i]
      if text then
        states[i] = H.record.read(group, text, now, record)
        changed[i] = leases.give_back(group, record, states[i], found.notes[i], settlement, now)
      end
    end
  end
  account_spent(found, settlement, now)
  for i, group in ipairs(found.plan.g) do
    if changed[i] then H.record.write(group, found.records[i], states[i], found.values[2 + i]) end
  end
  keep_notes(found, changed)
  return 1
end)
