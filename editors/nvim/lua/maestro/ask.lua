--- Requests to the person: in order, one prompt at a time, never into somebody's typing.
---
--- A prompt that is closed decides nothing: the request stays open at the server and can be taken up again.
local config = require('maestro.config')
local dialogs = require('maestro.dialogs')
local messages = require('maestro.messages')
local requests = require('maestro.requests')
local review = require('maestro.review')
local text = require('maestro.text')

local M = {}

local IDLE_MS = 700
local LOOK_MS = 100

---@class maestro.Asking a request on its way to the person
---@field client_id integer
---@field request maestro.Request
---@field send fun(answer?: maestro.Answer) nil: no answer
---@field told? boolean
---@field gone? string why no answer counts any more, as the key of a text

local queue = {} ---@type maestro.Asking[]
local current ---@type maestro.Asking?
local timer ---@type uv.uv_timer_t?
local last_key = 0
local keys = vim.api.nvim_create_namespace('maestro.keys')

-- -- when

--- Whether a prompt may open by itself: a person who types would answer it without having read it.
---@return boolean
local function idle()
  if config.get().prompt == 'now' then
    return true
  end
  return config.get().prompt ~= 'never'
    and vim.api.nvim_get_mode().mode == 'n'
    and vim.fn.state('mosa') == ''
    and vim.fn.getcmdwintype() == ''
    and vim.fn.reg_recording() == ''
    and vim.uv.now() - last_key >= IDLE_MS
end

local function stop_waiting()
  if timer then
    timer:stop()
    timer:close()
    timer = nil
    vim.on_key(nil, keys)
  end
end

--- Tell, without taking the cursor, that something waits for which no prompt will open by itself.
local function tell_waiting()
  for _, asking in ipairs(queue) do
    if not asking.told then
      asking.told = true
      local values = { title = text.cut(text.oneline(asking.request.title), 60) }
      text.notify(messages.text('ask.waits', values), vim.log.levels.WARN)
    end
  end
end

local open

local function pump()
  if current or #queue == 0 then
    stop_waiting()
  elseif idle() then
    stop_waiting()
    open(queue[1])
  elseif config.get().prompt == 'never' then
    tell_waiting()
  elseif not timer then
    last_key = vim.uv.now()
    vim.on_key(function()
      last_key = vim.uv.now()
    end, keys)
    timer = assert(vim.uv.new_timer())
    timer:start(LOOK_MS, LOOK_MS, vim.schedule_wrap(pump))
  end
end

---@param asking maestro.Asking
local function drop(asking)
  queue = vim.tbl_filter(function(other)
    return other ~= asking
  end, queue)
  current = current ~= asking and current or nil
end

---@param asking maestro.Asking
function open(asking)
  current, asking.told = asking, true
  dialogs.ask(asking.client_id, asking.request, function(answer, looks)
    if asking.gone then
      return answer and text.notify(messages.text(asking.gone), vim.log.levels.WARN)
    end
    if current ~= asking then
      return -- taken up anew meanwhile
    end
    drop(asking)
    asking.send(answer)
    if not answer then
      text.notify(messages.text(looks and 'ask.looks' or 'ask.stays_open'))
    end
    last_key = vim.uv.now()
    vim.schedule(pump)
  end)
end

-- -- what the server says

--- A request of the server; the answer to it. Called in the coroutine that Neovim answers from. Nobody can
--- have read it before some time has passed since it came, so it waits for that too.
---@param client_id integer
---@param request maestro.Request
---@return maestro.Answer|vim.NIL
function M.incoming(client_id, request)
  local co = coroutine.running()
  local sent = false
  local function respond(answer)
    vim.schedule(function()
      coroutine.resume(co, answer or vim.NIL)
    end)
  end
  local function send(answer)
    if sent then
      return
    end
    sent = true
    if not answer then
      return respond(nil)
    end
    requests.whether_open(client_id, request, function(still)
      if not still then
        text.notify(messages.text('ask.too_late'), vim.log.levels.WARN)
      end
      respond(still and answer or nil)
    end)
  end
  for _, asking in ipairs(queue) do
    if asking.client_id == client_id and asking.request.requestId == request.requestId then
      -- Asked anew while the first time waits: one prompt, whose answer goes to the request that still counts.
      asking.send(nil)
      asking.send = send
      return coroutine.yield()
    end
  end
  if not timer then
    last_key = vim.uv.now()
  end
  table.insert(queue, { client_id = client_id, request = request, send = send })
  vim.schedule(pump)
  return coroutine.yield()
end

--- Requests that were settled, here or elsewhere, need no answer.
---@param client_id integer
---@param settled fun(request: maestro.Request): boolean
function M.withdraw(client_id, settled)
  for _, asking in ipairs(queue) do
    if asking.client_id == client_id and settled(asking.request) then
      asking.gone = 'ask.too_late'
      asking.send(nil)
      if current == asking then
        review.close()
        dialogs.dismiss()
        text.notify(messages.text('ask.settled_elsewhere'))
      end
      drop(asking)
    end
  end
  pump()
end

--- Ask the server which of the requests here are still open.
---@param client_id integer
function M.check(client_id)
  for _, asking in ipairs(queue) do
    if asking.client_id == client_id then
      requests.whether_open(client_id, asking.request, function(still)
        if not still then
          M.withdraw(client_id, function(request)
            return request.requestId == asking.request.requestId
          end)
        end
      end)
    end
  end
end

--- The server is gone, and with it whoever would take an answer.
---@param client_id integer
function M.forget(client_id)
  for _, asking in ipairs(queue) do
    if asking.client_id == client_id then
      asking.gone = 'not_running'
      drop(asking)
    end
  end
  pump()
end

-- -- what the person says

--- Put a request before the person now, whether it is asked for the first time or again.
---@param client vim.lsp.Client
---@param request maestro.Request
---@param answer? maestro.Answer given already
function M.take_up(client, request, answer)
  for _, asking in ipairs(queue) do
    if asking.request.requestId == request.requestId or asking == current then
      drop(asking)
      asking.send(nil)
    end
  end
  review.close()
  if answer then
    return requests.settle(client, request, answer)
  end
  local asking = {
    client_id = client.id,
    request = request,
    send = function(given)
      return given and requests.settle(client, request, given)
    end,
  }
  table.insert(queue, 1, asking)
  stop_waiting()
  open(asking)
end

return M
