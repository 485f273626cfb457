-- Refusals as application/problem+json: the same documents as headroom_edge/problems.py, byte for byte.
local headers = require "headroom.headers"

local byte, concat, find, format, gsub = string.byte, table.concat, string.find, string.format, string.gsub
local seconds_up, whole = headers.seconds_up, headers.whole

local REGISTRY = "https://iana.org/assignments/http-problem-types#"
local QUOTA_EXCEEDED, REDUCED_CAPACITY = "quota-exceeded", "temporary-reduced-capacity"
local TITLES = {
  [400] = "Bad Request",
  [401] = "Unauthorized",
  [403] = "Forbidden",
  [429] = "Quota exceeded",
  [503] = "Temporarily reduced capacity",
}

-- What a limit that borrows says when it denies, by the cause in its row: before the limit's name and after it.
local CAUSES = {
  pool = { "Your share of the limit '", "' is used, and its pool lends no more at this priority" },
  share = { "Your share of the limit '", "' is used, and so is your fair part of what its pool lends" },
  ceiling = { "The ceiling of the limit '", "' is reached" },
}
local USED_UP = { "The limit '", "' is used up" }

local problems = {}

local SHORT = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t", ["\b"] = "\\b", ["\f"] = "\\f" }

local function escaped(character)
  if #character == 1 then return SHORT[character] or format("\\u%04x", byte(character)) end
  local code = byte(character) % (#character == 2 and 32 or #character == 3 and 16 or 8)
  for i = 2, #character do code = code * 64 + byte(character, i) % 64 end
  if code < 0x10000 then return format("\\u%04x", code) end
  code = code - 0x10000
  return format("\\u%04x\\u%04x", 0xd800 + math.floor(code / 1024), 0xdc00 + code % 1024)
end

-- A JSON string in ASCII. Bytes that are not UTF-8 become U+FFFD.
local function json(text)
  text = gsub(text, '[%z\1-\31"\\]', escaped)
  if find(text, "[\128-\255]") then
    text = gsub(text, "[\194-\223][\128-\191]", escaped)
    text = gsub(text, "[\224-\239][\128-\191][\128-\191]", escaped)
    text = gsub(text, "[\240-\244][\128-\191][\128-\191][\128-\191]", escaped)
    text = gsub(text, "[\128-\255]", "\\ufffd")
  end
  return '"' .. text .. '"'
end

local function json_list(texts)
  local parts = {}
  for i, text in ipairs(texts) do parts[i] = json(text) end
  return "[" .. concat(parts, ",") .. "]"
end

-- `extra`: the members that follow, as JSON.
local function problem(status, code, detail, extra, fields)
  local is_registered = code == QUOTA_EXCEEDED or code == REDUCED_CAPACITY
  local body = concat {
    '{"type":"', is_registered and REGISTRY .. code or "about:blank", '","title":"', TITLES[status], '","status":', status,
    ',"detail":', json(detail), ',"code":"', code, '"', extra or "", "}",
  }
  return { status = status, body = body, headers = fields or {} }
end

function problems.bad_cost(text)
  local detail = "cost must be a whole number from 1 to 1,000,000,000, not '" .. text .. "'; omit it for the endpoint's default."
  return problem(400, "invalid-field", detail, ',"field":"cost"')
end

function problems.bad_priority(text)
  local detail = "priority must be critical, high, normal or sheddable, not '" .. text .. "'; omit it for the configured one."
  return problem(400, "invalid-field", detail, ',"field":"priority"')
end

function problems.unauthorised(detail)
  return problem(401, "unauthorized", detail, nil, { ["WWW-Authenticate"] = "Bearer" })
end

function problems.forbidden(code, detail) return problem(403, code, detail) end

function problems.unavailable()
  local detail = "Limits cannot be checked at the moment; try again in a second."
  return problem(503, REDUCED_CAPACITY, detail, nil, { ["Retry-After"] = "1" })
end

-- The row of the limit that denied, if rows were asked for.
local function decisive(decision)
  for _, row in ipairs(decision.rows) do
    if row[1] == decision.limit then return row end
  end
end

-- Why a limit that borrows denied: what follows the slash in its mode.
local function cause_of(row) return row and string.match(row[9], "/(%a+)$") end

local function about(decision, violated, reason, limits_url)
  local extra = ',"violated-policies":' .. json_list(violated) .. ',"limit":' .. json(decision.limit) .. ',"reason":"' .. reason .. '"'
  local row = reason ~= "too_late" and decisive(decision)
  if row then
    extra = extra .. ',"subject":' .. json(row[11])
    local cause = cause_of(row)
    if cause then extra = extra .. ',"cause":"' .. cause .. '"' end
  end
  if limits_url == "" then return extra end
  return extra .. ',"limits-url":' .. json((gsub(limits_url, "{tenant}", (gsub(decision.tenant, "%%", "%%%%")))))
end

local function detail_of(decision)
  if decision.reason == "cost_too_big" then
    return "The request costs more than the limit '" .. decision.limit .. "' allows at once (" .. whole(decision.quota)
      .. "); split it into smaller requests."
  end
  local seconds, row = math.max(1, seconds_up(decision.retry_us)), decisive(decision)
  local words = CAUSES[cause_of(row) or ""] or USED_UP
  return words[1] .. decision.limit .. words[2] .. "; try again in " .. whole(seconds) .. " s."
end

-- The problem of a denied decision. `{tenant}` in `limits_url` is replaced by the tenant's name.
function problems.of(decision, limits_url)
  local reason = decision.reason
  if reason == "suspended" then
    return problem(403, "tenant-suspended", "The account is suspended; contact the operator of this service.")
  elseif reason == "unknown_tenant" then
    return problem(403, "unknown-tenant", "The account is unknown; check which account the request is made for.")
  elseif decision.failure then
    return problems.unavailable()
  end
  local violated = {}
  for _, row in ipairs(decision.rows) do
    if row[2] == 0 then violated[#violated + 1] = row[1] end
  end
  if #violated == 0 then violated[1] = decision.limit end
  return problem(429, QUOTA_EXCEEDED, detail_of(decision), about(decision, violated, reason, limits_url))
end

-- The problem of an admitted request that would have to wait longer than its caller does.
function problems.late(decision, limits_url)
  local seconds = math.max(1, seconds_up(decision.wait_us))
  local detail = "The limit '" .. decision.limit .. "' delays this request by " .. whole(seconds)
    .. " s, longer than the caller waits; retry then."
  local fields = { ["Retry-After"] = tostring(whole(seconds)) }
  return problem(429, QUOTA_EXCEEDED, detail, about(decision, { decision.limit }, "too_late", limits_url), fields)
end

problems.json = json
problems.json_list = json_list
return problems
