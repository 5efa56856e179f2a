--- The language server of the workspace one is in: found, started where it is not there yet, spoken to.
local messages = require('maestro.messages')
local text = require('maestro.text')

local M = {}

local NAME = 'maestro'
local START_MS = 10000
local LOOK_MS = 20

--- The folder that a command is about: of the current file, else of the working directory.
---@return string
function M.workspace()
  local buffer = vim.api.nvim_get_current_buf()
  local name = vim.api.nvim_buf_get_name(buffer)
  local file = vim.bo[buffer].buftype == '' and name ~= '' and name or nil
  local markers = vim.lsp.config[NAME].root_markers
  local cwd = vim.fn.getcwd()
  return file and vim.fs.root(file, markers) or vim.fs.root(cwd, markers) or cwd
end

---@return vim.lsp.Client?
function M.running()
  local attached = vim.lsp.get_clients({ name = NAME, bufnr = 0 })[1]
  if attached then
    return attached
  end
  local all = vim.lsp.get_clients({ name = NAME, _uninitialized = true })
  local wanted = vim.uv.fs_realpath(M.workspace())
  for _, client in ipairs(all) do
    if client.root_dir and vim.uv.fs_realpath(client.root_dir) == wanted then
      return client
    end
  end
  -- In a window of no file, such as the jobs, there is only one that can be meant.
  return vim.bo.buftype ~= '' and #all == 1 and all[1] or nil
end

--- Why the server cannot be started, in one sentence; nil if it can.
---@return string?
function M.missing()
  local cmd = vim.lsp.config[NAME].cmd
  if type(cmd) == 'table' and vim.fn.executable(cmd[1]) == 0 then
    return messages.text('no_server', { command = cmd[1] })
  end
end

---@return vim.lsp.Client?
local function start()
  local why = M.missing()
  if why then
    text.notify(why, vim.log.levels.ERROR)
    return nil
  end
  local config = vim.deepcopy(vim.lsp.config[NAME])
  config.root_dir = M.workspace()
  local id = vim.lsp.start(config, { attach = false })
  local client = id and vim.lsp.get_client_by_id(id)
  if not client then
    return nil
  end
  -- Its unsaved text counts, so the server must hear of every file of the workspace that is open.
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    local name = vim.api.nvim_buf_get_name(buffer)
    if vim.bo[buffer].buftype == '' and vim.api.nvim_buf_is_loaded(buffer) and name ~= '' then
      if vim.fs.relpath(config.root_dir, name) then
        vim.lsp.buf_attach_client(buffer, client.id)
      end
    end
  end
  return client
end

--- Call `act` with the workspace's client as soon as it can be spoken to; start it if it does not run.
---@param act fun(client: vim.lsp.Client)
function M.with_client(act)
  local client = M.running() or start()
  if not client then
    return
  end
  local ends = vim.uv.now() + START_MS
  local function look()
    if client.initialized then
      act(client)
    elseif client:is_stopped() or vim.uv.now() > ends then
      text.notify(messages.text('not_started'), vim.log.levels.ERROR)
    else
      vim.defer_fn(look, LOOK_MS)
    end
  end
  look()
end

--- Send a command of `maestro.…`. An error is one sentence of the server, told unless `on_error` takes it.
---@param client vim.lsp.Client
---@param command string without the leading `maestro.`
---@param params table
---@param on_result? fun(result: any)
---@param on_error? fun(err: lsp.ResponseError)
function M.call(client, command, params, on_result, on_error)
  local sent = next(params) and params or vim.empty_dict()
  client:exec_cmd(
    { title = command, command = 'maestro.' .. command, arguments = { sent } },
    { bufnr = vim.api.nvim_get_current_buf() },
    function(err, result)
      if not err then
        return on_result and on_result(result)
      end
      if on_error then
        return on_error(err)
      end
      text.notify(err.message, vim.log.levels.ERROR)
    end
  )
end

return M
