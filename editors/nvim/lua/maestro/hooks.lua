--- What the server says, and what to do about it: the functions of `lsp/maestro.lua`.
local ask = require('maestro.ask')
local config = require('maestro.config')
local jobs = require('maestro.jobs')
local text = require('maestro.text')

local M = {}

local LEVELS = {
  vim.log.levels.ERROR,
  vim.log.levels.WARN,
  vim.log.levels.INFO,
  vim.log.levels.DEBUG,
}
local WAITING = { waiting_human = true, waiting_subtasks = true }

--- Show what a job wrote: Neovim looks at the disk by itself only when it gets the focus. A buffer with
--- unsaved changes is left alone, for its person decides what becomes of them.
---@param client_id integer
local function reload_files(client_id)
  local client = vim.lsp.get_client_by_id(client_id)
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    local name = vim.api.nvim_buf_get_name(buffer)
    local file = vim.api.nvim_buf_is_loaded(buffer) and vim.bo[buffer].buftype == '' and name ~= ''
    if file and client and client.root_dir and vim.fs.relpath(client.root_dir, name) then
      if not vim.bo[buffer].modified then
        vim.cmd.checktime({ args = { tostring(buffer) }, mods = { silent = true } })
      end
    end
  end
end

---@type table<string, lsp.Handler>
M.handlers = {}

M.handlers['maestro/input'] = function(_, params, ctx)
  return ask.incoming(ctx.client_id, {
    requestId = params.requestId,
    jobId = params.jobId,
    reason = 'question',
    title = params.prompt,
    options = params.options,
  })
end

M.handlers['maestro/approve'] = function(_, params, ctx)
  return ask.incoming(ctx.client_id, params)
end

M.handlers['maestro/jobChanged'] = function(_, job, ctx)
  jobs.put(ctx.client_id, job)
  if not jobs.ACTIVE[job.status] then
    jobs.does(ctx.client_id, job.jobId, nil)
  end
  reload_files(ctx.client_id)
  local open = WAITING[job.status] and job.openRequests or {}
  ask.withdraw(ctx.client_id, function(request)
    return request.jobId == job.jobId and not vim.list_contains(open, request.requestId)
  end)
end

M.handlers['maestro/event'] = function(_, event, ctx)
  if event.kind == 'decision' then
    ask.withdraw(ctx.client_id, function(request)
      return request.requestId == event.requestId
    end)
  end
  if event.kind == 'tool_result' then
    reload_files(ctx.client_id)
  end
  require('maestro.page').outdated(event.jobId)
end

-- The server takes a request back, without saying here which one.
M.handlers['$/cancelRequest'] = function(_, _, ctx)
  ask.check(ctx.client_id)
end

M.handlers['window/showMessage'] = function(_, params)
  text.notify(params.message, LEVELS[params.type])
  return params
end

--- The server speaks the plugin's language; Neovim itself does not tell it any.
---@param params lsp.InitializeParams
function M.before_init(params)
  params.locale = config.get().language
end

---@param client vim.lsp.Client
function M.on_init(client)
  jobs.refresh(client)
end

---@param client_id integer
function M.on_exit(_, _, client_id)
  vim.schedule(function()
    ask.forget(client_id)
    jobs.forget(client_id)
  end)
end

--- Progress, for the statusline and the jobs: `<jobId>:<run>` says which job it is about.
---@param client_id integer
---@param token string|integer
---@param value { kind: string, title?: string, message?: string }
function M.progress(client_id, token, value)
  local job_id = type(token) == 'string' and token:match('^(.*):%d+$')
  if job_id then
    jobs.does(client_id, job_id, value.kind ~= 'end' and (value.message or value.title) or nil)
  end
end

return M
