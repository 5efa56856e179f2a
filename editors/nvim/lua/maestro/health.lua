--- `:checkhealth maestro`: what is there, what is missing, and how to mend it.
local messages = require('maestro.messages')
local server = require('maestro.server')

local M = {}

local ANSWER_MS = 5000

---@param key string
---@param values? table
---@return string
local function said(key, values)
  return messages.text('health.' .. key, values)
end

local function check_neovim()
  if vim.fn.has('nvim-0.11') == 1 then
    vim.health.ok(said('neovim', { version = tostring(vim.version()) }))
  else
    vim.health.error(messages.text('too_old'))
  end
end

--- The server's command and its version.
local function check_command()
  local cmd = vim.lsp.config.maestro.cmd
  if type(cmd) ~= 'table' then
    return vim.health.info(said('own_command'))
  end
  local why = server.missing()
  if why then
    return vim.health.error(why, { said('install'), said('set_command') })
  end
  -- What comes before the transport is the way to the server, such as an interpreter with its options.
  local asked = {}
  for _, argument in ipairs(cmd) do
    if argument == '--stdio' then
      break
    end
    table.insert(asked, argument)
  end
  table.insert(asked, '--version')
  local done = vim.system(asked, { text = true, timeout = ANSWER_MS }):wait()
  if done.code == 0 then
    vim.health.ok(said('server', { version = vim.trim(done.stdout), command = cmd[1] }))
  else
    vim.health.error(said('broken', { command = cmd[1], told = vim.trim(done.stderr or '') }), { said('install') })
  end
end

---@param status table the result of `maestro.status`
local function check_status(status)
  local model = status.model
  if model.endpoint == '' then
    vim.health.warn(said('no_endpoint'), { said('set_endpoint') })
  else
    local key = said(model.hasKey and 'with_key' or 'without_key')
    vim.health.ok(said('endpoint', { endpoint = model.endpoint, model = model.model, key = key }))
  end
  if status.trusted then
    vim.health.ok(said('trusted', { workspace = status.workspace }))
  else
    vim.health.info(said('untrusted', { workspace = status.workspace }))
  end
  vim.health.info(said('mode', { mode = status.mode, meaning = messages.text_or('mode.' .. status.mode, '') }))
  vim.health.info(said('store', { store = status.store, sandbox = status.sandbox }))
end

--- The running server of this workspace, if there is one.
local function check_running()
  if vim.lsp.is_enabled and not vim.lsp.is_enabled('maestro') then
    vim.health.warn(said('not_enabled'), { "vim.lsp.enable('maestro')" })
  end
  local client = server.running()
  if not client or not client.initialized then
    return vim.health.info(said('not_running'))
  end
  local params = { command = 'maestro.status', arguments = { vim.empty_dict() } }
  local answer, why = client:request_sync('workspace/executeCommand', params, ANSWER_MS)
  if answer and answer.result then
    check_status(answer.result)
  else
    vim.health.error(answer and answer.err and answer.err.message or said('no_answer', { why = why or '' }))
  end
end

function M.check()
  vim.health.start('maestro')
  check_neovim()
  check_command()
  check_running()
end

return M
