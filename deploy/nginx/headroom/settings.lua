-- What setup{ … } was told, checked. Raises one sentence for each mistake, so that nginx does not start with it.
local breaker = require "headroom.breaker"
local resp = require "headroom.resp"

local find, format, gsub, match = string.find, string.format, string.gsub, string.match

local EXAMPLE = "write it like redis://user:password@host:6379/0, rediss://host:6380/0, unix:///run/valkey.sock?db=0 "
  .. "or redis+cluster://user:password@host1:6379,host2:6379"
local SCHEMES = { redis = true, rediss = true, unix = true, ["redis+cluster"] = true, ["rediss+cluster"] = true }
local PROFILES = {
  draft = { draft = true },
  ["draft+x-ratelimit"] = { draft = true, triple = "X-RateLimit" },
  ["draft+ratelimit"] = { draft = true, triple = "RateLimit" },
  ["x-ratelimit"] = { triple = "X-RateLimit" },
}
local RESERVED = { holder = true, all = true, tenant = true, priority = true }
local MOST_DIMENSIONS = 28 -- the store accepts 32 pairs; ip, key, the holder and the mark of a paid check take four
local WAITING = 1024 -- requests of one worker that wait for a connection

local settings = {}

local function refuse(sentence, ...) error(format("headroom: " .. sentence, ...), 0) end

local function whole(given, name, default, least, most)
  local value = given[name]
  if value == nil then return default end
  if type(value) ~= "number" or value % 1 ~= 0 or value < least or value > most then
    refuse("%s is %s; set it to a whole number from %d to %d.", name, tostring(value), least, most)
  end
  return value
end

local function text(given, name, default)
  local value = given[name]
  if value == nil then return default end
  if type(value) ~= "string" then refuse("%s must be text, not a %s.", name, type(value)) end
  return value
end

local function switch(given, name, default)
  local value = given[name]
  if value == nil then return default end
  if type(value) ~= "boolean" then refuse("%s must be true or false, not %s.", name, tostring(value)) end
  return value
end

local function unescaped(value)
  return (gsub(value, "%%(%x%x)", function(digits) return string.char(tonumber(digits, 16)) end))
end

local OPTIONS = { db = true, ssl_cert_reqs = true }

local function query_of(raw)
  local found = {}
  for name, value in string.gmatch(raw, "([^&=]+)=([^&]*)") do
    if not OPTIONS[name] then refuse("the store's URL has the option '%s', which nginx does not know; remove it.", name) end
    found[name] = value
  end
  return found
end

local function place_of(address, where)
  local host, port = match(where, "^%[(.+)%]:?(%d*)$")
  if host then
    host = "[" .. host .. "]"
  else
    host, port = match(where, "^([^:]*):?(%d*)$")
  end
  if not host then refuse("the port in the store's URL must be a number from 1 to 65535; %s.", EXAMPLE) end
  address.server_name = host
  -- nginx asks its resolver for every name, even for this one.
  address.host = (host == "" or host == "localhost") and "127.0.0.1" or host
  address.port = tonumber(port ~= "" and port or 6379)
  if address.port < 1 or address.port > 65535 then
    refuse("the port in the store's URL must be a number from 1 to 65535; %s.", EXAMPLE)
  end
end

-- Reads the credentials. Returns the servers and the database.
local function servers_of(address, rest)
  local credentials, place = match(rest, "^(.*)@(.*)$")
  local user, password = match(credentials or "", "^([^:]*):?(.*)$")
  address.username, address.password = unescaped(user), unescaped(password)
  return match(place or rest, "^([^/]*)/?(.*)$")
end

local function database(value)
  if value == "" then return "0" end
  if find(value, "%D") then refuse("the database in the store's URL must be a whole number, not '%s'; %s.", value, EXAMPLE) end
  return value
end

-- The commands that a new connection sends first, and their number.
local function greeting_of(address)
  local commands, count = "", 0
  if address.password ~= "" then
    local words = { "AUTH", address.password }
    if address.username ~= "" then table.insert(words, 2, address.username) end
    commands, count = resp.command(words), 1
  end
  if address.db ~= "0" then
    commands, count = commands .. resp.command { "SELECT", address.db }, count + 1
  end
  return commands, count
end

local function verifies(query)
  local wish = query.ssl_cert_reqs or "required"
  if wish ~= "required" and wish ~= "none" then
    refuse("ssl_cert_reqs in the store's URL must be required or none, not '%s'.", wish)
  end
  return wish == "required"
end

-- What every server has of its own.
local function complete(address, connections)
  address.name = address.path or address.host .. ":" .. address.port
  -- A name of its own: a pool shared with other Lua code would mix users and databases.
  local pool = "headroom " .. address.name .. " " .. address.db
  address.pool = { pool = pool, pool_size = connections, backlog = WAITING }
  address.breaker = breaker.new()
  return address
end

-- The same address with another host and port.
local function sibling(address, where, connections)
  local found = {}
  for field, value in pairs(address) do found[field] = value end
  place_of(found, where)
  return complete(found, connections)
end

-- The servers of a cluster that the URL names.
local function nodes_of(address, where, connections)
  local nodes = {}
  for one in string.gmatch(where, "[^,]+") do nodes[#nodes + 1] = sibling(address, one, connections) end
  if #nodes == 0 then refuse("the store's URL names no server of the cluster; %s.", EXAMPLE) end
  return nodes
end

-- The address, and the servers if it is a cluster's.
local function address_of(given, connections)
  local url = text(given, "redis")
  if not url then refuse("setup needs redis, the store's URL; %s.", EXAMPLE) end
  local scheme, rest = match(url, "^([%a+]+)://(.*)$")
  if not SCHEMES[scheme or ""] then refuse("the store's URL has an unsupported scheme; %s.", EXAMPLE) end
  local is_cluster = find(scheme, "+cluster", 1, true) ~= nil
  local place, raw = match(rest, "^([^?]*)%??(.*)$")
  local query, address = query_of(raw), { username = "", password = "" }
  local db, where = "", ""
  if scheme == "unix" then
    local credentials, path = match(place, "^([^/@]*)@(/.*)$")
    if credentials then
      local user, password = match(credentials, "^([^:]*):?(.*)$")
      address.username, address.password = unescaped(user), unescaped(password)
    end
    address.path = unescaped(path or place)
    if address.path == "" then refuse("the store's URL has no socket path; %s.", EXAMPLE) end
  else
    where, db = servers_of(address, place)
    if not is_cluster then place_of(address, where) end
    address.tls, address.verify = find(scheme, "^rediss") ~= nil, verifies(query)
  end
  address.db = database(query.db or db)
  address.username = text(given, "username", address.username)
  address.password = text(given, "password", address.password)
  address.greeting, address.greetings = greeting_of(address)
  if not is_cluster then return complete(address, connections) end
  if address.db ~= "0" then refuse("a cluster has no database %s; leave it out of the store's URL.", address.db) end
  return address, nodes_of(address, where, connections)
end

local function dimensions_of(given)
  local names = given.dimensions or {}
  if type(names) ~= "table" then refuse('dimensions must be a list, such as { "user", "org" }.') end
  if #names > MOST_DIMENSIONS then refuse("dimensions must name at most %d.", MOST_DIMENSIONS) end
  local found, seen = {}, {}
  for i, name in ipairs(names) do
    if type(name) ~= "string" or not find(name, "^%l[%l%d_]*$") or #name > 32 or RESERVED[name] or seen[name] then
      refuse("'%s' in dimensions is reserved, repeated or not a valid name; use names such as user or org.", tostring(name))
    end
    seen[name] = true
    found[i] = { name = name, variable = "headroom_dim_" .. name }
  end
  return found, seen
end

local function choice(given, name, default, allowed, words)
  local value = text(given, name, default)
  if not allowed[value] then refuse("%s is '%s'; set it to one of %s.", name, value, words) end
  return value
end

local KNOWN = {
  redis = true, username = true, password = true, shards = true, budget_ms = true, fail = true, connections = true,
  max_wait_ms = true, heartbeat_s = true, keys = true, dimensions = true, headers = true, limits_url = true, leases = true,
}

function settings.read(given)
  if type(given) ~= "table" then refuse('setup needs a table: setup{ redis = "redis://127.0.0.1:6379/0" }.') end
  for name in pairs(given) do
    if not KNOWN[name] then refuse("setup does not know %s; remove it or mend its spelling.", tostring(name)) end
  end
  settings.shards = whole(given, "shards", 64, 1, 16384)
  settings.budget_s = whole(given, "budget_ms", 20, 1, 60000) / 1000
  settings.connections = whole(given, "connections", 64, 1, 10000)
  settings.max_wait_us = whole(given, "max_wait_ms", 1000, 0, 600000) * 1000
  settings.heartbeat_s = whole(given, "heartbeat_s", 5, 1, 10)
  settings.fail = choice(given, "fail", "open", { open = true, closed = true }, "open, closed")
  settings.profile = PROFILES[choice(given, "headers", "draft", PROFILES, "draft, draft+x-ratelimit, draft+ratelimit, x-ratelimit")]
  settings.limits_url = text(given, "limits_url", "")
  settings.keys = switch(given, "keys", true)
  settings.leases = switch(given, "leases", false)
  settings.dimensions, settings.names_dimension = dimensions_of(given)
  settings.address, settings.nodes = address_of(given, settings.connections)
  settings.is_cluster = settings.nodes ~= nil
  settings.name = settings.is_cluster and "the cluster" or settings.address.name
  if settings.leases and not ngx.shared.headroom then
    refuse("leases need shared memory; add `lua_shared_dict headroom 10m;` inside http { }.")
  end
end

-- A server of the cluster that another one has named.
function settings.node(host, port) return sibling(settings.address, host .. ":" .. port, settings.connections) end

settings.PROFILES = PROFILES
return settings
