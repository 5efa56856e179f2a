--- The commands. Global, for a task is about a workspace: they work from any of its windows.
local afterwards = require('maestro.afterwards')
local ask = require('maestro.ask')
local dialogs = require('maestro.dialogs')
local jobs = require('maestro.jobs')
local messages = require('maestro.messages')
local requests = require('maestro.requests')
local server = require('maestro.server')
local start = require('maestro.start')
local text = require('maestro.text')

local M = {}

-- -- what runs or waits

---@param client vim.lsp.Client
---@param act fun(job: maestro.Job)
local function pick_active(client, act)
  dialogs.job(client, function(job)
    return jobs.ACTIVE[job.status]
  end, 'jobs.none_active', act)
end

--- Answer or decide what is open. Words are the answer to a question. What the jobs below a job ask is asked
--- of it, too.
---@param opts { args?: string, range?: integer, line1?: integer, line2?: integer, job?: string }
function M.answer(opts)
  local words = vim.trim(opts.args or '')
  if (opts.range or 0) > 0 then
    words = vim.trim(table.concat(vim.fn.getline(opts.line1, opts.line2), '\n'))
  end
  server.with_client(function(client)
    requests.list_open(client, function(found)
      found = vim.tbl_filter(function(item)
        return not opts.job or jobs.is_within(client.id, item.job, opts.job)
      end, found)
      local function take(item)
        if item and words ~= '' and item.request.reason ~= 'question' then
          text.notify(messages.text('ask.not_a_question'), vim.log.levels.WARN)
        end
        local answers = item and words ~= '' and item.request.reason == 'question'
        return item and ask.take_up(client, item.request, answers and { text = words } or nil)
      end
      if #found <= 1 then
        return found[1] and take(found[1]) or text.notify(messages.text('ask.nothing'))
      end
      local select = { prompt = messages.text('ask.which', { count = #found }), kind = 'maestro_request' }
      select.format_item = function(item)
        return ('%s  %s'):format(text.short_id(item.job.taskId), text.oneline(item.request.title))
      end
      vim.ui.select(found, select, take)
    end)
  end)
end

--- Open the jobs of the workspace.
function M.jobs()
  server.with_client(function(client)
    require('maestro.board').open(client)
  end)
end

---@param client vim.lsp.Client
---@param job maestro.Job
function M.cancel_job(client, job)
  local question = messages.text('jobs.cancel', { title = text.cut(text.oneline(job.title), 60) })
  local opts = { prompt = question, kind = 'maestro_confirm' }
  vim.ui.select({ messages.text('jobs.cancel_yes'), messages.text('jobs.cancel_no') }, opts, function(_, index)
    if index == 1 then
      server.call(client, 'task.cancel', { jobId = job.jobId })
    end
  end)
end

--- Cancel a job, the person picks which if there are several.
function M.cancel()
  server.with_client(function(client)
    pick_active(client, function(job)
      M.cancel_job(client, job)
    end)
  end)
end

--- Say something to a task.
---@param client vim.lsp.Client
---@param job maestro.Job
---@param words string
function M.comment_on(client, job, words)
  local function send(said)
    if said then
      server.call(client, 'task.comment', { taskId = job.taskId, text = said }, function(result)
        text.notify(messages.text(result.jobId and 'comment.follow_up' or 'comment.sent'))
        jobs.refresh(client)
      end)
    end
  end
  if words ~= '' then
    return send(words)
  end
  dialogs.words(messages.text('comment.text', { title = text.cut(text.oneline(job.title), 40) }), send)
end

---@param opts { args: string }
function M.comment(opts)
  server.with_client(function(client)
    pick_active(client, function(job)
      M.comment_on(client, job, vim.trim(opts.args))
    end)
  end)
end

-- -- the workspace

---@param client vim.lsp.Client
---@param mode string
local function set_mode(client, mode)
  server.call(client, 'mode.set', { mode = mode }, function()
    jobs.of(client.id).mode = mode
    jobs.changed()
    text.notify(messages.text('mode.set', { mode = mode }))
  end)
end

--- Set the mode of new jobs; without an argument, pick it.
---@param opts { args: string }
function M.mode(opts)
  server.with_client(function(client)
    local mode = vim.trim(opts.args)
    if mode ~= '' then
      return set_mode(client, mode)
    end
    local prompt = messages.text('mode.which', { mode = jobs.of(client.id).mode or '?' })
    local select = { prompt = prompt, kind = 'maestro_mode' }
    select.format_item = function(item)
      return ('%s  %s'):format(text.pad(item, 6), messages.text('mode.' .. item))
    end
    vim.ui.select(start.MODES, select, function(item)
      return item and set_mode(client, item)
    end)
  end)
end

--- Ask whether the workspace is trusted, and tell the server.
function M.trust()
  server.with_client(function(client)
    local opts = { prompt = messages.text('trust.which', { path = client.root_dir or '?' }), kind = 'maestro_trust' }
    local items = { messages.text('trust.yes'), messages.text('trust.no') }
    vim.ui.select(items, opts, function(_, index)
      if index then
        server.call(client, 'workspace.trust', { trusted = index == 1 }, function()
          text.notify(messages.text(index == 1 and 'trust.is' or 'trust.is_not'))
        end)
      end
    end)
  end)
end

--- Define the user commands and the progress they show.
function M.define()
  local function define(name, act, opts)
    opts.desc = messages.text('command.' .. name:lower())
    vim.api.nvim_create_user_command('LspMaestro' .. name, act, opts)
  end
  define('Task', start.task, { nargs = '*', range = true, complete = start.complete })
  define('Answer', M.answer, { nargs = '*', range = true })
  define('Jobs', M.jobs, { nargs = 0 })
  define('Cancel', M.cancel, { nargs = 0 })
  define('Comment', M.comment, { nargs = '*' })
  define('Mode', M.mode, {
    nargs = '?',
    complete = function(lead)
      return start.starting_with(start.MODES, lead)
    end,
  })
  define('Trust', M.trust, { nargs = 0 })
  define('Revert', afterwards.revert_one, { nargs = 0 })
  define('Export', afterwards.export_one, {
    nargs = '?',
    complete = function(lead)
      return start.starting_with(afterwards.FORMATS, lead)
    end,
  })
  define('Graph', afterwards.graph_one, { nargs = '?', complete = start.complete_piece })
  vim.api.nvim_create_autocmd('LspProgress', {
    group = vim.api.nvim_create_augroup('maestro', {}),
    callback = function(args)
      local client = vim.lsp.get_client_by_id(args.data.client_id)
      if client and client.name == 'maestro' then
        require('maestro.hooks').progress(client.id, args.data.params.token, args.data.params.value)
      end
    end,
  })
end

return M
