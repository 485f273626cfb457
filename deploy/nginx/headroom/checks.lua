-- One check: its arguments as a command, and the reply as a decision.
local recent_cache = require "headroom.recent_cache"
local resp = require "headroom.resp"
local settings = require "headroom.settings"

local concat, find, format, sub = table.concat, string.find, string.format, string.sub
local crc32, word = ngx.crc32_short, resp.word

local ENDPOINT_CHARACTERS, DIMENSION_CHARACTERS = 200, 1024
local UNREGISTERED = "-" -- no endpoint has this name, so only the limits on `*` apply
local HEADS_KEPT = 16384
local ROWS_FROM = 13

local checks = {}
local heads = recent_cache.new(HEADS_KEPT)

local function shard_of(tenant) return crc32(tenant) % settings.shards end

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

-- The words of all dimensions that are known, encoded, their number, and the values by name.
local function subject_of(var, key)
  local words, count, values = {}, 0, {}
  local function add(name, value)
    if value and value ~= "" then
      if #value > DIMENSION_CHARACTERS then value = cut(value, DIMENSION_CHARACTERS) end
      words[count + 1], words[count + 2], values[name] = word(name), word(value), value
      count = count + 2
    end
  end
  local named = settings.names_dimension
  add("key", key)
  if not named.ip then
    local address = var.remote_addr
    if address ~= "unix:" then add("ip", address) end
  end
  local dimensions = settings.dimensions
  for i = 1, #dimensions do
    local name = dimensions[i].name
    if name ~= "key" or not key then add(name, var[dimensions[i].variable]) end
  end
  return concat(words), count, values
end

-- nil if $headroom_cost is not a cost.
function checks.new(var, tenant, key)
  local endpoint, cost = var.headroom_endpoint, var.headroom_cost
  if not endpoint or endpoint == "" then endpoint = UNREGISTERED end
  if #endpoint > ENDPOINT_CHARACTERS then endpoint = cut(endpoint, ENDPOINT_CHARACTERS) end
  if not cost or cost == "" then
    cost = "*"
  elseif not is_cost(cost) then
    return nil
  end
  local subject, words, values = subject_of(var, key)
  return {
    tenant = tenant, endpoint = endpoint, cost = cost, place = tenant .. "\0" .. endpoint, subject = subject, words = words,
    values = values,
  }
end

-- `hr_check` for this check, asking for rows.
function checks.command(check)
  local key = check.place .. "\0" .. check.cost
  local head = heads:get(key)
  if not head then
    local words = { "FCALL", "hr_check", "1", "hr:{" .. shard_of(check.tenant) .. "}", check.tenant, check.endpoint, check.cost, "ALL" }
    for i = 1, #words do words[i] = word(words[i]) end
    head = concat(words)
    heads:put(key, head)
  end
  return "*" .. 8 + check.words .. "\r\n" .. head .. check.subject
end

-- Another function with the check's tenant, endpoint and subject.
function checks.call(name, check, ...)
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
