-- Who a request is counted for: the owner of its API key, or the tenant that the configuration names.
local credentials = require "headroom.credentials"
local problems = require "headroom.problems"
local recent_cache = require "headroom.recent_cache"
local settings = require "headroom.settings"

local find = string.find

local OWN_TENANT = "headroom"
local TENANTS_KEPT = 4096
local MISSING = problems.unauthorised("The API key is missing; send it as Authorization: Bearer hr_… or as X-API-Key.")
local INVALID = problems.unauthorised("The API key is unknown, expired or revoked; send a valid one.")
local NO_SCOPE = problems.forbidden("scope-missing", "The token lacks the scope check; use one that has it.")
local NO_TENANT = problems.forbidden("tenant-missing", "This token belongs to no tenant; send a tenant's API key.")
local UNKNOWN = problems.forbidden("unknown-tenant", "The account is unknown; check which account the request is made for.")
local OWN = problems.forbidden("own-tenant", "headroom is this installation's own tenant; use another tenant.")

local callers = {}

local tenants = recent_cache.new(TENANTS_KEPT) -- names that are good

local function is_tenant(name)
  if tenants:get(name) then return true end
  if #name > 63 or not find(name, "^[a-z0-9][a-z0-9-]*$") then return false end
  tenants:put(name, true)
  return true
end

-- Tenant, and the credential if there is one; nil and a problem; or nil, nil and a text if the store does not tell.
local function identify(var, deadline)
  local tenant = var.headroom_tenant or ""
  if tenant ~= "" and not is_tenant(tenant) then return nil, UNKNOWN end
  local text = settings.keys and credentials.sent(var)
  if not text then
    if tenant ~= "" then return tenant end
    return nil, settings.keys and MISSING or UNKNOWN
  end
  local owner, cause = credentials.find(text, deadline)
  if owner == nil then return nil, nil, cause end
  if not owner then return nil, INVALID end
  if not owner.may_check then return nil, NO_SCOPE end
  if owner.tenant ~= "" then tenant = owner.tenant end
  if tenant == "" then return nil, NO_TENANT end
  return tenant, owner
end

function callers.identify(var, deadline)
  local tenant, found, cause = identify(var, deadline)
  if tenant == OWN_TENANT then return nil, OWN end
  return tenant, found, cause
end

return callers
