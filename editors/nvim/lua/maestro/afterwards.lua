--- What can be done with a job beside answering it: put back what it changed, write it down, look at its piece.
local dialogs = require('maestro.dialogs')
local messages = require('maestro.messages')
local review = require('maestro.review')
local server = require('maestro.server')
local text = require('maestro.text')

local M = {}

M.FORMATS = { 'md', 'json' }

--- What putting back does to a file: the opposite of what the job did.
---@param file table a `FileChanged`
---@return string
local function line_of(file)
  local key = file.status
  if not file.currentMatches then
    key = 'changed'
  elseif file.renamedFrom then
    key = 'renamed'
  end
  local values = { path = text.oneline(file.path), before = text.oneline(file.renamedFrom or '') }
  return messages.text_or('revert.' .. key, messages.text('revert.modified', values), values)
end

--- Tell how many files are as before the job; those that were left, and why, get a page of their own.
---@param files table[] what was listed before
---@param result { reverted: string[], kept: { path: string, text: string }[] }
local function tell(files, result)
  -- What the job's commands left by the way (caches) is not listed, and goes, too.
  local count = #vim.tbl_filter(function(file)
    return vim.list_contains(result.reverted, file.path)
  end, files)
  vim.cmd.checktime()
  if #result.kept > 0 then
    local lines = vim.tbl_map(function(one)
      return ('%s: %s'):format(text.oneline(one.path), text.oneline(one.text))
    end, result.kept)
    review.show(messages.text('revert.left'), lines, '')
  end
  text.notify(messages.text('revert.done', { count = count, kept = #result.kept }))
end

--- Put back what a job changed, after a look at which files those are and a yes.
---@param client vim.lsp.Client
---@param job maestro.Job
function M.revert(client, job)
  server.call(client, 'task.changes', { jobId = job.jobId }, function(changes)
    if #changes.files == 0 then
      return text.notify(messages.text('revert.nothing'))
    end
    review.show(messages.text('revert.what'), vim.tbl_map(line_of, changes.files), '')
    vim.cmd.redraw()
    local question = messages.text('revert.sure', { title = text.cut(text.oneline(job.title), 60) })
    local opts = { prompt = question, kind = 'maestro_confirm' }
    vim.ui.select({ messages.text('revert.yes'), messages.text('jobs.cancel_no') }, opts, function(_, index)
      review.close()
      if index == 1 then
        server.call(client, 'task.revert', { jobId = job.jobId }, function(result)
          tell(changes.files, result)
        end)
      end
    end)
  end)
end

--- Write a job and its task down in the task's `output` folder, and open that.
---@param client vim.lsp.Client
---@param job maestro.Job
---@param format? 'md'|'json'
function M.export(client, job, format)
  server.call(client, 'task.export', { jobId = job.jobId, format = format or 'md' }, function(result)
    vim.cmd.tabedit({ args = { vim.fn.fnameescape(vim.uri_to_fname(result.uri)) } })
  end)
end

--- Show the movements of a piece and the ways between them, as Mermaid text.
---@param client vim.lsp.Client
---@param piece string
function M.graph(client, piece)
  server.call(client, 'piece.graph', { piece = piece }, function(result)
    local lines = vim.split(vim.trim(result.mermaid), '\n', { plain = true })
    review.show(messages.text('graph.of', { piece = text.oneline(piece) }), lines, 'mermaid')
  end)
end

-- -- as commands

---@param job maestro.Job
---@return boolean
local function rests(job)
  return job.status ~= 'queued' and job.status ~= 'running' and job.status ~= 'waiting_subtasks'
end

--- `:LspMaestroRevert`: of the job that the person picks.
function M.revert_one()
  server.with_client(function(client)
    dialogs.job(client, rests, 'jobs.none_at_rest', function(job)
      M.revert(client, job)
    end)
  end)
end

--- `:LspMaestroExport [format]`: of the job that the person picks.
---@param opts { args: string }
function M.export_one(opts)
  server.with_client(function(client)
    dialogs.job(client, function()
      return true
    end, 'jobs.none', function(job)
      M.export(client, job, opts.args ~= '' and opts.args or nil)
    end)
  end)
end

--- `:LspMaestroGraph [piece]`: of the piece that is named or picked.
---@param opts { args: string }
function M.graph_one(opts)
  server.with_client(function(client)
    local piece = vim.trim(opts.args)
    if piece ~= '' then
      return M.graph(client, piece)
    end
    dialogs.piece(client, false, function(picked)
      M.graph(client, picked)
    end)
  end)
end

return M
