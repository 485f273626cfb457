-- The protocol of Redis (RESP2): words to a command, and the bytes of a reply to its values.
-- Null is ngx.null. An error is a table {error = text}. Lists are Lua lists.
local byte, sub, find, concat = string.byte, string.sub, string.find, table.concat
local null = ngx.null

local resp = {}

local INTEGER, BULK, LIST, SIMPLE, ERROR = 58, 36, 42, 43, 45
local MINUS, CARRIAGE_RETURN = 45, 13
local DEEPEST = 8

function resp.word(text)
  return "$" .. #text .. "\r\n" .. text .. "\r\n"
end

function resp.command(words)
  local parts = { "*" .. #words .. "\r\n" }
  for i = 1, #words do parts[i + 1] = resp.word(words[i]) end
  return concat(parts)
end

-- The whole number at `at`, and the position behind its line; nil if it is not there yet, nil and a text if it is none.
local function number(text, at)
  local value, sign = 0, 1
  local digit = byte(text, at)
  if digit == MINUS then
    sign, at = -1, at + 1
    digit = byte(text, at)
  end
  local first = at
  while digit do
    if digit == CARRIAGE_RETURN then
      if at == first then return nil, "a number without digits" end
      if at == #text then return nil end
      return sign * value, at + 2
    end
    if digit < 48 or digit > 57 then return nil, "a number with other characters" end
    value = value * 10 + (digit - 48) -- in this order, or 2^53 is passed too early
    at = at + 1
    digit = byte(text, at)
  end
  return nil
end

local parse

local function list(text, count, at, depth)
  if count < 0 then return null, at end
  if depth > DEEPEST then return nil, "lists inside too many lists" end
  local values = {}
  for i = 1, count do
    local value, after = parse(text, at, depth)
    if value == nil then return nil, after end
    values[i], at = value, after
  end
  return values, at
end

-- The value at `at` and the position behind it; nil if it is not whole yet, nil and a text if it is not a reply.
function parse(text, at, depth)
  local kind = byte(text, at)
  if not kind then return nil end
  if kind == SIMPLE or kind == ERROR then
    local stop = find(text, "\r\n", at, true)
    if not stop then return nil end
    local line = sub(text, at + 1, stop - 1)
    return kind == ERROR and { error = line } or line, stop + 2
  end
  if kind ~= INTEGER and kind ~= BULK and kind ~= LIST then return nil, "an unknown type" end
  local value, after = number(text, at + 1)
  if not value or kind == INTEGER then return value, after end
  if kind == LIST then return list(text, value, after, depth + 1) end
  if value < 0 then return null, after end
  if #text < after + value + 1 then return nil end
  return sub(text, after, after + value - 1), after + value + 2
end

function resp.parse(text, at) return parse(text, at, 0) end

return resp
