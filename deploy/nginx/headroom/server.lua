-- Talks to one server over cosockets, at an address of headroom/settings.lua. A connection goes back to the pool only after exactly the replies that were asked for,
-- so no reply can reach another request.
local clock = require "headroom.clock"
local resp = require "headroom.resp"
local settings = require "headroom.settings"

local tcp, ceil = ngx.socket.tcp, math.ceil
local parse = resp.parse

local IDLE_MS = 60000
local AT_ONCE, LONGEST = 65536, 4194304 -- bytes

local server = {}

-- Whether there is time left. Sets it as the limit of the socket's next step.
local function has_time(socket, deadline)
  local left_ms = ceil((deadline - clock.now()) * 1000)
  if left_ms < 1 then return false end
  socket:settimeout(left_ms)
  return true
end

-- Reads exactly `count` replies. Returns them, nil, and their text.
local function replies_of(socket, count, deadline)
  local text, at, replies = "", 1, {}
  while true do
    if not has_time(socket, deadline) then return nil, "timeout" end
    local data, problem = socket:receiveany(AT_ONCE)
    if not data then return nil, problem end
    text = text == "" and data or text .. data
    while #replies < count do
      local value, after = parse(text, at)
      if value == nil then
        if after then return nil, "the answer is not from Redis: " .. after end
        break
      end
      replies[#replies + 1], at = value, after
    end
    if #replies == count then
      if at <= #text then return nil, "more answers than questions" end
      return replies, nil, text
    end
    if #text > LONGEST then return nil, "the answer is too long" end
  end
end

local function talk(socket, commands, count, deadline)
  if not has_time(socket, deadline) then return nil, "timeout" end
  local sent, problem = socket:send(commands)
  if not sent then return nil, problem end
  return replies_of(socket, count, deadline)
end

-- What a new connection needs before its first command: TLS, AUTH, SELECT.
local function introduce(socket, address, deadline)
  if address.tls then
    if not has_time(socket, deadline) then return nil, "timeout" end
    -- Raises, in some versions of lua-resty-core, if a certificate is refused without any waiting.
    local ran, good, problem = pcall(socket.sslhandshake, socket, nil, address.server_name, address.verify)
    if not ran or not good then return nil, "TLS: " .. (ran and problem or "the certificate is not trusted") end
  end
  if address.greetings == 0 then return true end
  local replies, problem = talk(socket, address.greeting, address.greetings, deadline)
  if not replies then return nil, problem end
  for i = 1, #replies do
    if type(replies[i]) == "table" then return nil, replies[i].error end
  end
  return true
end

local function connected(address, deadline)
  local socket = tcp()
  if not has_time(socket, deadline) then return nil, "timeout" end
  local good, problem
  if address.path then
    good, problem = socket:connect("unix:" .. address.path, address.pool)
  else
    good, problem = socket:connect(address.host, address.port, address.pool)
  end
  if not good then return nil, problem end
  if socket:getreusedtimes() == 0 then
    good, problem = introduce(socket, address, deadline)
    if not good then
      socket:close()
      return nil, problem
    end
  end
  return socket
end

-- Sends commands (one text of `count` commands). Returns their replies, nil, and what Redis wrote; nil and a text that
-- says why if there are none in time. The fourth value: nothing was sent.
function server.exchange(address, commands, count, deadline)
  local socket, problem = connected(address, deadline)
  if not socket then return nil, problem, nil, true end
  local replies, text
  replies, problem, text = talk(socket, commands, count, deadline)
  if not replies then
    -- Never kept: a late answer would become another request's.
    socket:close()
    return nil, problem
  end
  socket:setkeepalive(IDLE_MS, settings.connections)
  return replies, nil, text
end

-- The same, unless the server's breaker says no.
function server.ask(address, commands, count, deadline)
  local breaker = address.breaker
  local permit = breaker:enter()
  if not permit then return nil, "the breaker is open", nil, true end
  local replies, problem, text, is_unsent = server.exchange(address, commands, count, deadline)
  if replies then
    breaker:succeeded(permit)
  else
    breaker:failed(permit)
  end
  return replies, problem, text, is_unsent
end

return server
