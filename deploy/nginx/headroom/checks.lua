-- One check: its arguments as a command, and the reply as a decision.
local problems = require "headroom.problems"
local recent_cache = require "headroom.recent_cache"
local resp = require "headroom.resp"
local settings = require "headroom.settings"

local concat, find, format, sub = table.concat, string.find, string.format, string.sub
local crc32, word = ngx.crc32_short, resp.word

local ENDPOINT_CHARACTERS, DIMENSION_CHARACTERS = 200, 1024
local UNREGISTERED = "-" -- no endpoint has this name, so only the limits on `*` apply
local HEADS_KEPT = 16384
local ROWS_FROM = 13

local EVERYONE, EVERYONES_SHARD = "*", "all" -- the plans of global limits in a cluster, and where they are

local checks = { EVERYONE = EVERYONE }
local heads = recent_cache.new(HEADS_KEPT)

local function shard_of(tenant)
  if tenant == EVERYONE then return EVERYONES_SHARD end
  return crc32(tenant) % settings.shards
end

-- The first `most` characters of UTF-8 text.
local function cut(text, most)
  local characters, at = 0, 1
  while at <= #text do
    local following = string.byte(text, at)
    if following < 128 or following > 191 then
      if characters == most then return sub(text, 1, at - 1) end
      characters = characters + 1
    end
    at = at + 1
  end
  return text
end

local function is_cost(text)
  return find(text, "^[1-9]%d*$") ~= nil and #text <= 10 and tonumber(text) <= 1000000000
end

-- What is known about the caller, by dimension.
local function values_of(var, key)
  local values, dimensions = { key = key }, settings.dimensions
  if not settings.names_dimension.ip then
    local address = var.remote_addr
    if address ~= "unix:" then values.ip = address end
  end
  for i = 1, #dimensions do
    local name, value = dimensions[i].name, var[dimensions[i].variable]
    if value and value ~= "" and (name ~= "key" or not key) then
      values[name] = #value > DIMENSION_CHARACTERS and cut(value, DIMENSION_CHARACTERS) or value
    end
  end
  return values
end

local PRIORITIES = { critical = true, high = true, normal = true, sheddable = true }

-- nil and a problem if $headroom_cost is not a cost, or $headroom_priority not a priority.
function checks.new(var, tenant, key)
  local endpoint, cost, priority = var.headroom_endpoint, var.headroom_cost, var.headroom_priority
  if not endpoint or endpoint == "" then endpoint = UNREGISTERED end
  if #endpoint > ENDPOINT_CHARACTERS then endpoint = cut(endpoint, ENDPOINT_CHARACTERS) end
  if not cost or cost == "" then
    cost = "*"
  elseif not is_cost(cost) then
    return nil, problems.bad_cost(cost)
  end
  if priority == "" then priority = nil end
  if priority and not PRIORITIES[priority] then return nil, problems.bad_priority(priority) end
  local place = tenant .. "\0" .. endpoint
  return {
    tenant = tenant, endpoint = endpoint, cost = cost, place = place, name = place .. "\0" .. cost,
    values = values_of(var, key), priority = priority,
  }
end

local FIRST = { "key", "ip" }
local PAID = word("GLOBAL") .. word("paid")

-- Encodes the dimensions and the priority into check.subject, and counts their words. Not needed for what a lease decides.
local function encode(check)
  if check.subject then return end
  local parts, count = {}, 0
  for i = 1, #FIRST + #settings.dimensions do
    local name = FIRST[i] or settings.dimensions[i - #FIRST].name
    local value = check.values[name]
    if value and (i <= #FIRST or name ~= "key" and name ~= "ip") then
      parts[count + 1], parts[count + 2] = word(name), word(value)
      count = count + 2
    end
  end
  if check.priority then
    parts[count + 1], parts[count + 2] = word("priority"), word(check.priority)
    count = count + 2
  end
  check.subject, check.words = concat(parts), count
end

-- The same check of a request that global limits have allowed. `holder`: the one that they gave it, or an empty text.
function checks.paid(check, holder)
  encode(check)
  local found = {}
  for field, value in pairs(check) do found[field] = value end
  found.subject, found.words = check.subject .. PAID, check.words + 2
  if holder ~= "" then found.subject, found.words = found.subject .. word("holder") .. word(holder), found.words + 2 end
  return found
end

-- What a request asks the home of global limits.
function checks.home(check)
  encode(check)
  local place = EVERYONE .. "\0" .. check.endpoint
  return {
    tenant = EVERYONE, endpoint = check.endpoint, cost = check.cost, place = place, name = place .. "\0" .. check.cost,
    values = check.values, subject = check.subject, words = check.words, payer = check, priority = check.priority,
  }
end

-- `hr_check` for this check, asking for rows.
function checks.command(check)
  encode(check)
  local head = heads:get(check.name)
  if not head then
    local words = { "FCALL", "hr_check", "1", "hr:{" .. shard_of(check.tenant) .. "}", check.tenant, check.endpoint, check.cost, "ALL" }
    for i = 1, #words do words[i] = word(words[i]) end
    head = concat(words)
    heads:put(check.name, head)
  end
  return "*" .. 8 + check.words .. "\r\n" .. head .. check.subject
end

-- Another function with the check's tenant, endpoint and subject.
function checks.call(name, check, ...)
  encode(check)
  local words = { "FCALL", name, "1", "hr:{" .. shard_of(check.tenant) .. "}", check.tenant, check.endpoint, ... }
  local count = #words + check.words
  for i = 1, #words do words[i] = word(words[i]) end
  return "*" .. count .. "\r\n" .. concat(words) .. check.subject
end

-- The receipt as hr_refund takes it.
function checks.receipt(decision)
  local parts = {}
  for i, part in ipairs(decision.receipt) do parts[i] = type(part) == "number" and format("%.0f", part) or part end
  return concat(parts, ":")
end

local TYPES = {
  "number", "string", "string", "number", "number", "number", "number", "number", "number", "string", "table", "string",
}

-- nil if the reply has not the form of an answer of hr_check. `last`: the index of its last row.
function checks.decision(check, reply, last)
  if type(reply) ~= "table" then return nil end
  for i = 1, #TYPES do
    if type(reply[i]) ~= TYPES[i] then return nil end
  end
  local rows = {}
  for i = ROWS_FROM, last or #reply do rows[i - ROWS_FROM + 1] = reply[i] end
  return {
    allowed = reply[1] == 1, reason = reply[2], limit = reply[3], quota = reply[4], remaining = reply[5], reset_us = reply[6],
    retry_us = reply[7], wait_us = reply[8], revision = reply[9], holder = reply[10], receipt = reply[11], mode = reply[12],
    rows = rows, tenant = check.tenant,
  }
end

checks.shard_of = shard_of
return checks
