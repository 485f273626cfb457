-- A cluster: which server has a key is learnt from its redirections, per worker. What Python does with the whole map of
-- slots (headroom_edge/store/routing.py) is done here by the tag of a key: there are no more tags than shards.
--
-- A tag without a known server, or whose server does not answer, is asked for at another one: it answers with the
-- address of the owner, which may be new. Each server has its own connections and its own breaker.
local clock = require "headroom.clock"
local server = require "headroom.server"
local settings = require "headroom.settings"

local concat, find, match, sub = table.concat, string.find, string.match, string.sub

local ASKING = "*1\r\n$6\r\nASKING\r\n"
local ASKED = "+OK\r\n"
local MOVES_AT_MOST = 3
local PAUSE_S = 0.002 -- about as long as a key takes to move
local LOOK_S = 0.1 -- between two questions to others about a server that does not answer
local SERVERS_KEPT = 1000
local CIRCLE = "the servers of the cluster refer to each other in a circle"
local MOVING = "the slot was moving for as long as the budget lasted"

local cluster = {}
local owners, looked_s = {}, {} -- by tag: the server that has it; when another one was asked about it
local servers, names = {}, {} -- by host:port, and in the order in which they were learnt
local turn = 0

local function start_over()
  servers, names, owners = {}, {}, {}
  for i, address in ipairs(settings.nodes) do servers[address.name], names[i] = address, address.name end
end

local function server_at(host, port, asked)
  -- A server that does not know its own address leaves the host out.
  if host == "" then host = asked.host end
  if find(host, ":", 1, true) and sub(host, 1, 1) ~= "[" then host = "[" .. host .. "]" end
  local name = host .. ":" .. port
  if not servers[name] then
    if #names >= SERVERS_KEPT then start_over() end
    servers[name], names[#names + 1] = settings.node(host, tonumber(port)), name
  end
  return servers[name]
end

-- Any server but this one: the next one that answers, in turn.
local function another(than)
  if #names == 0 then start_over() end
  local last
  for _ = 1, #names do
    turn = turn % #names + 1
    local found = servers[names[turn]]
    if found ~= than then
      if found.breaker.state == "closed" then return found end
      last = last or found
    end
  end
  return last or than
end

-- Every key of ours is `hr:{tag}…`, and the key is the first word with a brace.
local function tag_of(command) return match(command, "{([^}]*)}") end

local function owner_of(tag)
  local owner = owners[tag]
  if not owner then return another() end
  if owner.breaker.state == "closed" then return owner end
  local now = clock.now()
  if now - (looked_s[tag] or 0) < LOOK_S then return owner end
  looked_s[tag] = now
  return another(owner)
end

local function is_passing(text)
  return find(text, "non local key", 1, true) or find(text, "^TRYAGAIN") or find(text, "^CLUSTERDOWN")
end

local function ask_once(address, command, is_asking, deadline)
  if not is_asking then return server.ask(address, command, 1, deadline) end
  local replies, problem, text, is_unsent = server.ask(address, ASKING .. command, 2, deadline)
  return replies and { replies[2] }, problem, text and sub(text, #ASKED + 1), is_unsent
end

-- What to do after a server has not answered: true, ask the next one, because nothing was sent and its owner is not known.
local function missed(tag, address, is_unsent)
  local is_guess = owners[tag] ~= address
  if not is_guess and address.breaker.state == "closed" then owners[tag] = nil end
  return is_unsent and is_guess
end

function cluster.ask(command, deadline)
  local tag, moves, misses, asking = tag_of(command), 0, 0, nil
  while clock.now() < deadline do
    local address = asking or owner_of(tag)
    local replies, problem, text, is_unsent = ask_once(address, command, asking, deadline)
    asking = nil
    if not replies then
      if not missed(tag, address, is_unsent) or misses >= #names then return nil, problem end
      misses = misses + 1
    else
      local reply = replies[1]
      local failure = type(reply) == "table" and reply.error
      if not failure then return reply, nil, text end
      local kind, host, port = match(failure, "^(%u+) %d+ (%S*):(%d+)")
      if kind == "MOVED" then
        if moves >= MOVES_AT_MOST then return nil, CIRCLE end
        moves = moves + 1
        owners[tag], looked_s[tag] = server_at(host, port, address), clock.now()
      elseif kind == "ASK" then
        asking = server_at(host, port, address)
      elseif is_passing(failure) then
        ngx.sleep(PAUSE_S)
      else
        return reply, nil, text
      end
    end
  end
  return nil, MOVING
end

local function is_redirection(reply)
  local failure = type(reply) == "table" and reply.error
  return failure and (find(failure, "^MOVED ") or find(failure, "^ASK ") or is_passing(failure))
end

-- The places in the list of the commands that one server is asked.
local function by_server(commands)
  local groups = {}
  for i = 1, #commands do
    local tag = tag_of(commands[i])
    local address = owners[tag] or another()
    local group = groups[address]
    if not group then
      group = { at = {}, commands = {} }
      groups[address] = group
    end
    group.at[#group.at + 1], group.commands[#group.commands + 1] = i, commands[i]
  end
  return groups
end

function cluster.attend(commands, patience_s)
  local found = {}
  for i = 1, #commands do found[i] = false end
  for address, group in pairs(by_server(commands)) do
    local deadline = clock.now() + patience_s
    local is_well = address.breaker.state == "closed"
    local replies = is_well and server.exchange(address, concat(group.commands), #group.commands, deadline)
    for j, i in ipairs(group.at) do
      local reply = replies and replies[j] or false
      if is_redirection(reply) then reply = cluster.ask(commands[i], deadline) or false end
      found[i] = reply
    end
  end
  return found
end

return cluster
