-- What every other file builds on. The loader wraps each file in its own block, so `H` and the locals of this file
-- are all that they share. `math`, `string` and the like are not available while a library loads, only inside its
-- functions, so H.bind fetches them at the first call.
local H = { kinds = {}, functions = {} }
local call, protected_call
local floor, ceil, max, min, huge, sub, byte, rep, format, find, match, gmatch, concat, unpack_, tonumber_
local pack, unpack_struct, sha1hex, json_decode, json_encode

function H.bind()
  floor, ceil, max, min, huge = math.floor, math.ceil, math.max, math.min, math.huge
  sub, byte, rep, format = string.sub, string.byte, string.rep, string.format
  find, match, gmatch, concat = string.find, string.match, string.gmatch, table.concat
  unpack_, tonumber_ = unpack, tonumber
  pack, unpack_struct = struct.pack, struct.unpack
  call, protected_call, sha1hex, json_decode = redis.call, redis.pcall, redis.sha1hex, cjson.decode
  json_encode = cjson.encode
  H.bound = true
end

-- name: the function's name without its prefix; flags: as in redis.register_function; body(keys, args, now).
function H.define(name, flags, body)
  H.functions[#H.functions + 1] = { name, flags, body }
end

-- Parses a whole number from `least` to `most`; nil for anything else.
function H.whole(text, least, most)
  if not text or not match(text, '^%d+$') or #text > 16 then return nil end
  local value = tonumber_(text)
  if value < least or value > most then return nil end
  return value
end

local DIGITS = '0123456789abcdefghijklmnopqrstuvwxyz'

function H.base36(number)
  local text = ''
  repeat
    local digit = number % 36
    text = sub(DIGITS, digit + 1, digit + 1) .. text
    number = (number - digit) / 36
  until number == 0
  return text
end

function H.fail(code, sentence)
  return redis.error_reply(code .. ' ' .. sentence)
end
