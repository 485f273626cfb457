-- hr_calendars: exports the use of calendar quotas, and restores it after Redis lost its data.
-- KEYS[1]  the shard's prefix, or hr:{all} for the records of global limits
-- ARGV     TAKE id            makes the records touched since the last TAKE batch `id`, unless a batch still waits
--          READ id cursor     the next page of that batch
--          DONE id            deletes that batch, which is in Postgres now
--          BEGIN version      starts restoring counters, before a shard without token is flipped to that version
--          PUT version, then repeated: record, ttl in ms, n, and n times: limit, generation, start, used
-- reply    TAKE: the id of the batch to read now ('' if there is none); DONE: 1, or 0 if it was gone
--          READ: the next cursor (0: the end), then for each counter a list of record, ttl_ms, limit, generation,
--          start of the period in seconds, used; a record is its key without the prefix
--          BEGIN: 1; PUT: how many records were restored (existing ones are left alone)
-- writes   renames S:q to S:qb; the records, with TTL; S:s:<version>:q, whose absence reveals a second loss.
--          TAKE, BEGIN and PUT are refused while a cluster moves the slot, the others if their keys are not here (reach.lua)
local calendars = {}
H.calendars = calendars

local BEGUN_TTL, PAGE, AT_ONCE = 600000, 200, 1000
local A_DAY = 86400000 -- TTL for a record that has none, if somebody removed it

local function begun_key(shard, version) return H.keys.staged(shard, version, 'q') end

function calendars.is_begun(shard, version) return call('EXISTS', begun_key(shard, version)) == 1 end

local function waiting(batch) return call('HGET', batch, 'id') or '' end

-- Whether this batch waits. Fails rather than deny it while the batch may be on the other node.
local function is_waiting(shard, batch, id)
  if waiting(batch) == id then return true end
  H.reach.prove(batch, H.keys.touched(shard))
  return false
end

local function take(shard, id)
  local touched, batch = H.keys.touched(shard), H.keys.touched_batch(shard)
  local before = waiting(batch)
  if before ~= '' then return before end
  H.reach.stand_still(shard)
  if call('HLEN', touched) <= call('HEXISTS', touched, '_') then return '' end
  call('RENAME', touched, batch)
  H.account.open(shard)
  call('HSET', batch, 'id', id)
  return id
end

local function counters(shard, suffix, text, rows)
  if not text or #text == 0 then return end
  local ttl = call('PTTL', shard .. suffix)
  local found, numbers = H.record.parse(text)
  for id, limit in pairs(found) do
    if limit.kind == 'q' then
      local start, used = numbers[limit.offset], numbers[limit.offset + 1]
      rows[#rows + 1] = { suffix, ttl > 0 and ttl or A_DAY, id, limit.generation, start, used }
    end
  end
end

local function read(shard, id, cursor)
  local batch = H.keys.touched_batch(shard)
  if not is_waiting(shard, batch, id) or not H.whole(cursor, 0, 9007199254740991) then return { '0' } end
  local page = call('HSCAN', batch, cursor, 'COUNT', PAGE)
  local rows, suffixes = { page[1] }, {}
  for i = 1, #page[2], 2 do
    local suffix = page[2][i]
    if sub(suffix, 1, 1) == ':' then suffixes[#suffixes + 1] = suffix end
  end
  for from = 1, #suffixes, AT_ONCE do
    local last = min(from + AT_ONCE - 1, #suffixes)
    local names = { batch } -- two keys at least, so that a record which is not here fails the read
    for i = from, last do names[#names + 1] = shard .. suffixes[i] end
    local texts = call('MGET', unpack_(names))
    for i = from, last do counters(shard, suffixes[i], texts[i - from + 2], rows) end
  end
  return rows
end

local function done(shard, id)
  local batch = H.keys.touched_batch(shard)
  if not is_waiting(shard, batch, id) then return 0 end
  call('UNLINK', batch)
  return 1
end

local function begin(shard, version)
  H.reach.stand_still(shard)
  call('SET', begun_key(shard, version), '1', 'PX', BEGUN_TTL)
  return 1
end

-- A record with calendar quotas only; its other limits start empty. args[at] is the number of its counters.
local function record_of(args, at, count)
  local header, formats, numbers = string.char(count), '<', {}
  for i = 1, count do
    local first = at + (i - 1) * 4 + 1
    local id, generation = H.whole(args[first], 1, 65535), H.whole(args[first + 1], 0, 16777215)
    local start, used = H.whole(args[first + 2], 0, 1099511627775), H.whole(args[first + 3], 0, 9007199254740991)
    if not (id and generation and start and used) then return nil end
    header = header .. pack('>I2I3', id, generation) .. 'q'
    formats = formats .. H.kinds.q.format
    numbers[#numbers + 1], numbers[#numbers + 2] = start, used
  end
  return header .. pack(formats, unpack_(numbers))
end

local function put(shard, version, args)
  H.reach.stand_still(shard)
  if not calendars.is_begun(shard, version) then
    return H.fail('HRLOST', 'the store was emptied again meanwhile: begin anew')
  end
  call('PEXPIRE', begun_key(shard, version), BEGUN_TTL)
  local at, made = 3, 0
  while at <= #args do
    local suffix, ttl, count = args[at], H.whole(args[at + 1], 1, 9007199254740991), H.whole(args[at + 2], 1, 127)
    local text = ttl and count and sub(suffix, 1, 1) == ':' and record_of(args, at + 2, count)
    if not text then return H.fail('HRARGS', 'PUT takes a version, then records with their ttl and their counters') end
    if call('SET', shard .. suffix, text, 'NX', 'PX', args[at + 1]) then
      made = made + 1
    end
    at = at + 3 + count * 4
  end
  return made
end

local ACTIONS = { TAKE = take, READ = read, DONE = done, BEGIN = begin }

H.define('calendars', { 'allow-oom' }, function(keys, args)
  local name, id = args[1], args[2]
  if not id or id == '' or not ACTIONS[name] and name ~= 'PUT' then
    return H.fail('HRARGS', 'give TAKE, READ or DONE and the id of a batch, or BEGIN or PUT and a version')
  end
  if name == 'PUT' then return put(keys[1], id, args) end
  return ACTIONS[name](keys[1], id, args[3])
end)
