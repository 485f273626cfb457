-- The owner of an API key, looked up in what the publisher wrote to the store (headroom_edge/directory.py). Cached for
-- a moment only, so a revoked key is refused and a new one accepted within a second. While the store is away, cached
-- owners stay valid, but a key that has an end is refused from that moment on.
local ffi = require "ffi"
local clock = require "headroom.clock"
local recent_cache = require "headroom.recent_cache"
local resp = require "headroom.resp"
local settings = require "headroom.settings"
local store = require "headroom.store"

local find, format, gmatch, gsub, match, sub = string.find, string.format, string.gmatch, string.gsub, string.match, string.sub
local null = ngx.null

local FRESH_S, KNOWN_KEPT, UNKNOWN_KEPT = 0.3, 8192, 1024
local LONGEST_KEPT = 200 -- bytes of a field
local NEVER = math.huge
local DIRECTORY = resp.command { "HMGET", "hr:{all}:d", "pepper" }
local SECRET = "^hr_(" .. ("[0-9a-f]"):rep(16) .. ")_(" .. ("[0-9a-f]"):rep(64) .. ")$"

-- From the OpenSSL that nginx itself is linked with: no package has to be installed for it.
ffi.cdef [[
const void *EVP_sha256(void);
unsigned char *HMAC(const void *hash, const void *key, int key_bytes, const unsigned char *data, size_t bytes,
                    unsigned char *digest, unsigned int *digest_bytes);
]]

local credentials = {}
local known, unknown = recent_cache.new(KNOWN_KEPT), recent_cache.new(UNKNOWN_KEPT)
local pepper = ""
local digest_bytes = ffi.new("unsigned char[64]")

-- Whether this nginx has OpenSSL.
function credentials.are_possible()
  return (pcall(function() return ffi.C.HMAC end))
end

local function hex(text)
  return (gsub(text, ".", function(character) return format("%02x", string.byte(character)) end))
end

local function bytes_of(digits)
  return (gsub(digits, "%x%x", function(pair) return string.char(tonumber(pair, 16)) end))
end

local function digest_of(secret)
  ffi.C.HMAC(ffi.C.EVP_sha256(), pepper, #pepper, secret, #secret, digest_bytes, nil)
  return hex(ffi.string(digest_bytes, 32))
end

-- `<key id> <scopes, facts> <tenant>`; the tenant is empty for a token that is valid for all.
local function parsed(entry, id)
  local key_id, words, tenant = match(entry, "^(%S+) (%S*) (%S*)$")
  if not key_id then return nil, "the store's index of credentials cannot be read" end
  -- The index is by secret alone. A secret under another id is not the key that was issued.
  if key_id ~= id then return false end
  local found = { key_id = key_id, tenant = tenant, counted_as = key_id, ends_s = NEVER, may_check = false }
  for word in gmatch(words, "[^,]+") do
    if sub(word, 1, 6) == "!ends=" then
      ngx.update_time()
      found.ends_s = clock.now() + tonumber(sub(word, 7)) / 1000 - ngx.now()
    elseif sub(word, 1, 4) == "!as=" then
      found.counted_as = sub(word, 5)
    elseif word == "check" then
      found.may_check = true
    end
  end
  return found
end

-- Asks for a digest and the pepper at once. If the pepper has changed, it asks again with the new one.
local function read(id, secret, deadline)
  for _ = 1, 3 do
    local commands = { DIRECTORY }
    if pepper ~= "" then
      local digest = digest_of(secret)
      local index = "hr:{" .. ngx.crc32_long(digest) % settings.shards .. "}:i"
      commands[2] = resp.command { "HMGET", index, digest, "*" }
    end
    local replies, problem = store.ask_all(commands, deadline)
    if not replies then return nil, problem end
    for i = 1, #commands do
      if type(replies[i]) ~= "table" or replies[i].error then return nil, replies[i].error or "an unexpected answer" end
    end
    local published = replies[1][1]
    if published == null then return nil, "the store has no directory of keys yet" end
    local current = bytes_of(published)
    if commands[2] and current == pepper then
      -- Every index has the field `*`. Without it the index was lost, and a missing key means nothing.
      if replies[2][2] == null then return nil, "the store has no index of credentials yet" end
      return replies[2][1] ~= null and parsed(replies[2][1], id)
    end
    pepper = current
  end
  return nil, "the pepper of API keys keeps changing"
end

local function valid(entry)
  return entry.owner and clock.now() < entry.owner.ends_s and entry.owner
end

-- The owner; false if the key is unknown, wrong, revoked or ended; nil and a text if the store does not tell.
function credentials.find(text, deadline)
  local entry, now = known:get(text), clock.now()
  if entry then
    if now - entry.read_s < FRESH_S then return valid(entry) end
    -- Other requests use the cached owner until this look-up ends.
    entry.read_s = now
  elseif now - (unknown:get(text) or -1) < FRESH_S then
    return false
  end
  local id, secret = match(text, SECRET)
  if not id then return false end
  local owner, problem = read(id, secret, deadline)
  if owner == nil then
    if entry then return valid(entry) end
    if unknown:get(text) then return false end
    return nil, problem
  end
  if not owner and not entry then
    unknown:put(text, now)
    return false
  end
  entry = { owner = owner, read_s = now }
  known:put(text, entry)
  return valid(entry)
end

local function trimmed(text) return match(text, "^%s*(.-)%s*$") end

local function of_bearer(field)
  return find(field, "^[Bb][Ee][Aa][Rr][Ee][Rr] ") and trimmed(sub(field, 8)) or ""
end

local texts = { [of_bearer] = recent_cache.new(KNOWN_KEPT), [trimmed] = recent_cache.new(KNOWN_KEPT) }

-- The key in a field; nil if there is none. A key without Headroom's prefix belongs to the application and is ignored.
local function key_in(field, read)
  if not field then return nil end
  local text = texts[read]:get(field)
  if not text then
    text = read(field)
    if sub(text, 1, 3) ~= "hr_" then return nil end
    if #field <= LONGEST_KEPT then texts[read]:put(field, text) end
  end
  return text
end

-- The API key as sent.
function credentials.sent(var)
  local text = var.headroom_api_key
  if text and text ~= "" then return trimmed(text) end
  return key_in(var.http_authorization, of_bearer) or key_in(var.http_x_api_key, trimmed)
end

return credentials
