-- Rate limit headers of a decision: the twin of headroom_edge/headers.py. Both are tested with
-- tests/fixtures/header_cases.json; docs/headers.md has the rules.
local recent_cache = require "headroom.recent_cache"

local ceil, concat, format, gsub = math.ceil, table.concat, string.format, string.gsub

local SECOND_US = 1000000
local NAMES_KEPT = 4096

local headers = {}

-- Lua would write large numbers as 1e+15.
local function whole(number)
  if number < 1e14 and number > -1e14 then return number end
  return format("%.0f", number)
end

-- Microseconds to whole seconds, rounded up so that nobody retries too early.
local function seconds_up(us) return ceil(us / SECOND_US) end

local quotes = recent_cache.new(NAMES_KEPT)

-- A Structured Fields string. A character that is not ASCII becomes `?`: one would make the whole field invalid.
local function quoted(name)
  local text = quotes:get(name)
  if text then return text end
  text = gsub(gsub(name, "[%z\1-\31\127]", "?"), "[\194-\244][\128-\191]*", "?")
  text = '"' .. gsub(text, '[\\"]', "\\%0") .. '"'
  quotes:put(name, text)
  return text
end

local function policy(name, quota, window_s, unit)
  if window_s == 0 then return name .. ";q=" .. whole(quota) .. ';qu="concurrent-requests"' end
  return name .. ";q=" .. whole(quota) .. ";w=" .. whole(window_s) .. (unit == "cost" and ";headroom-unit=cost" or "")
end

local function item(name, quota, remaining, reset_us)
  if remaining < quota and reset_us > 0 then
    return name .. ";r=" .. whole(remaining) .. ";t=" .. whole(seconds_up(reset_us))
  end
  return name .. ";r=" .. whole(remaining)
end

function headers.policies(rows)
  local policies = {}
  for i = 1, #rows do
    local row = rows[i]
    policies[i] = policy(quoted(row[1]), row[3], row[4], row[10])
  end
  return concat(policies, ", ")
end

local function add_draft(fields, decision)
  local rows = decision.rows
  if #rows == 0 then
    fields["RateLimit"] = item(quoted(decision.limit), decision.quota, decision.remaining, decision.reset_us)
    return
  end
  fields["RateLimit-Policy"] = decision.policies or headers.policies(rows)
  local row = rows[1]
  local items = item(quoted(row[1]), row[3], row[5], row[6])
  for i = 2, #rows do
    row = rows[i]
    items = items .. ", " .. item(quoted(row[1]), row[3], row[5], row[6])
  end
  fields["RateLimit"] = items
end

local function add_triple(fields, decision, prefix)
  fields[prefix .. "-Limit"] = whole(decision.quota)
  fields[prefix .. "-Remaining"] = whole(decision.remaining)
  fields[prefix .. "-Reset"] = whole(seconds_up(decision.reset_us))
end

function headers.render(decision, profile)
  local fields = {}
  if decision.failure then
    fields["Headroom-Degraded"] = decision.failure
  elseif decision.limit ~= "" then
    if profile.draft then add_draft(fields, decision) end
    if profile.triple then add_triple(fields, decision, profile.triple) end
  end
  if not decision.allowed and decision.retry_us >= 0 then
    fields["Retry-After"] = whole(math.max(1, seconds_up(decision.retry_us)))
  end
  return fields
end

local NAMES = {
  "RateLimit-Policy", "RateLimit", "Headroom-Degraded", "Retry-After", "RateLimit-Limit", "RateLimit-Remaining",
  "RateLimit-Reset", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset",
}

-- Puts rendered fields into the response, in a fixed order.
function headers.send(fields)
  local answer = ngx.header
  for i = 1, #NAMES do
    local value = fields[NAMES[i]]
    if value then answer[NAMES[i]] = value end
  end
end

headers.seconds_up = seconds_up
headers.whole = whole
return headers
