-- The store: one server, or a cluster (headroom/cluster.lua).
--   ask       one command, for a request. Returns its reply, nil, and what Redis wrote; nil and a text that says why if
--             there is none in time
--   ask_all   a list of commands, for a request. Returns the list of replies; nil and a text if any has none
--   attend    a list of commands outside of requests, which never counts for a breaker. Returns a list of replies, in
--             which false is none
local clock = require "headroom.clock"
local cluster = require "headroom.cluster"
local server = require "headroom.server"
local settings = require "headroom.settings"

local concat = table.concat

local store = {}

function store.ask(command, deadline)
  if settings.is_cluster then return cluster.ask(command, deadline) end
  local replies, problem, text = server.ask(settings.address, command, 1, deadline)
  if replies then return replies[1], nil, text end
  return nil, problem
end

function store.ask_all(commands, deadline)
  if not settings.is_cluster then return server.ask(settings.address, concat(commands), #commands, deadline) end
  local replies = {}
  for i = 1, #commands do
    local reply, problem = cluster.ask(commands[i], deadline)
    if reply == nil then return nil, problem end
    replies[i] = reply
  end
  return replies
end

function store.attend(commands, patience_s)
  if settings.is_cluster then return cluster.attend(commands, patience_s) end
  local replies = server.exchange(settings.address, concat(commands), #commands, clock.now() + patience_s)
  if replies then return replies end
  replies = {}
  for i = 1, #commands do replies[i] = false end
  return replies
end

-- Whether to do what is not for a request: while the breaker is open, only a request probes the server. In a cluster
-- each server is looked at by itself.
function store.is_well() return settings.is_cluster or settings.address.breaker.state == "closed" end

return store
