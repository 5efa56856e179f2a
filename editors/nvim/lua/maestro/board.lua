--- `:LspMaestroJobs`: the jobs of a workspace in a buffer that follows them, with keys.
local afterwards = require('maestro.afterwards')
local commands = require('maestro.commands')
local jobs = require('maestro.jobs')
local messages = require('maestro.messages')
local server = require('maestro.server')
local text = require('maestro.text')

local M = {}

local namespace = vim.api.nvim_create_namespace('maestro.board')

local HIGHLIGHTS = {
  waiting_human = 'DiagnosticWarn',
  waiting_subtasks = 'DiagnosticInfo',
  queued = 'DiagnosticInfo',
  running = 'DiagnosticInfo',
  succeeded = 'DiagnosticOk',
  failed = 'DiagnosticError',
  aborted = 'DiagnosticError',
  cancelled = 'Comment',
}
local STATE_WIDTH, PIECE_WIDTH = 12, 18

---@class maestro.Board
---@field client_id integer
---@field rows maestro.Job[] by line

---@type table<integer, maestro.Board>
local boards = {}

--- What a job costs, e.g. `12.3k`.
---@param job maestro.Job
---@return string
function M.tokens(job)
  local sum = job.usage.promptTokens + job.usage.completionTokens
  return sum < 1000 and tostring(sum) or ('%.1fk'):format(sum / 1000)
end

--- Why it waits, what waits below it, how it ended, or what it does; empty where there is nothing to say.
---@param client_id integer
---@param job maestro.Job
---@return string
local function note(client_id, job)
  local below = jobs.waiting_below(client_id, job)
  if job.status == 'waiting_subtasks' and #below > 0 then
    local wait = below[1].waitReason or ''
    return messages.text('wait.below', { count = #below, what = messages.text_or('wait.' .. wait, wait) })
  elseif job.waitReason then
    return messages.text_or('wait.' .. job.waitReason, job.waitReason)
  elseif M.put_off(job) then
    return M.put_off(job)
  elseif not jobs.ACTIVE[job.status] then
    return job.forced and job.status ~= 'cancelled' and messages.text('state.forced') or ''
  end
  return jobs.of(client_id).doing[job.jobId] or ''
end

--- That a busy model server put a queued job off, and until when; nil of any other.
---@param job maestro.Job
---@return string?
function M.put_off(job)
  if job.status ~= 'queued' or job.reason ~= 'rate_limited' then
    return nil
  end
  return job.notBefore and messages.text('wait.busy_until', { time = text.clock(job.notBefore) })
    or messages.text('wait.busy')
end

---@param client_id integer
---@param item { job: maestro.Job, depth: integer }
---@return string line
---@return integer state_end where the state ends, in bytes
local function row(client_id, item)
  local job = item.job
  local state = text.pad(messages.text_or('state.' .. job.status, job.status), STATE_WIDTH)
  local where = vim.tbl_filter(function(part)
    return part ~= nil
  end, { job.piece or '–', job.movement })
  local head = (' %s %s %s '):format(
    state,
    text.pad(table.concat(where, ' · '), PIECE_WIDTH),
    text.pad(M.tokens(job), 7)
  )
  local title = ('  '):rep(item.depth) .. text.oneline(job.title)
  local said = text.oneline(note(client_id, job))
  return head .. title .. (said ~= '' and '  — ' .. said or ''), #state + 1
end

---@param buffer integer
local function render(buffer)
  local board = boards[buffer]
  local lines, marks = {}, {}
  board.rows = {}
  for _, item in ipairs(jobs.list(board.client_id)) do
    local line, state_end = row(board.client_id, item)
    table.insert(board.rows, item.job)
    table.insert(lines, line)
    table.insert(marks, { state_end, HIGHLIGHTS[item.job.status] })
  end
  if #lines == 0 then
    lines = { ' ' .. messages.text('jobs.none') }
  end
  vim.bo[buffer].modifiable = true
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  vim.bo[buffer].modifiable = false
  vim.api.nvim_buf_clear_namespace(buffer, namespace, 0, -1)
  for line, mark in ipairs(marks) do
    if mark[2] then
      vim.api.nvim_buf_set_extmark(buffer, namespace, line - 1, 0, { end_col = mark[1], hl_group = mark[2] })
    end
  end
end

---@param client vim.lsp.Client
---@param job maestro.Job
local function retry(client, job)
  server.call(client, 'task.retry', { jobId = job.jobId }, function()
    jobs.refresh(client)
  end)
end

---@type table<string, { key: string, act: fun(client: vim.lsp.Client, job: maestro.Job) }>
local KEYS = {
  { key = '<CR>', name = 'show', act = function(client, job)
    require('maestro.page').open(client, job)
  end },
  { key = 'a', name = 'answer', act = function(_, job)
    commands.answer({ job = job.jobId })
  end },
  { key = 'c', name = 'comment', act = function(client, job)
    commands.comment_on(client, job, '')
  end },
  { key = 'd', name = 'changes', act = function(client, job)
    require('maestro.page').changes(client, job)
  end },
  { key = 'x', name = 'cancel', act = commands.cancel_job },
  { key = 'r', name = 'retry', act = retry },
  { key = 'u', name = 'revert', act = afterwards.revert },
  { key = 'e', name = 'export', act = function(client, job)
    afterwards.export(client, job)
  end },
  { key = 'p', name = 'graph', act = function(client, job)
    if job.piece then
      afterwards.graph(client, job.piece)
    end
  end },
}

---@return string
local function bar()
  local parts = vim.tbl_map(function(key)
    return ('%s %s'):format(key.key, messages.text('key.' .. key.name))
  end, KEYS)
  return ' maestro   ' .. table.concat(parts, '  ') .. '  q ' .. messages.text('key.close')
end

---@param buffer integer
local function map_keys(buffer)
  for _, key in ipairs(KEYS) do
    vim.keymap.set('n', key.key, function()
      local board = boards[buffer]
      local job = board.rows[vim.api.nvim_win_get_cursor(0)[1]]
      local client = vim.lsp.get_client_by_id(board.client_id)
      if not client then
        return text.notify(messages.text('not_running'), vim.log.levels.WARN)
      end
      return job and key.act(client, job)
    end, { buffer = buffer, nowait = true, desc = messages.text('key.' .. key.name) })
  end
  vim.keymap.set('n', 'q', '<Cmd>close<CR>', { buffer = buffer, nowait = true, desc = messages.text('key.close') })
end

---@param client vim.lsp.Client
---@return integer
local function make(client)
  local buffer = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_name(buffer, ('maestro://jobs-%d'):format(client.id))
  vim.bo[buffer].bufhidden = 'wipe'
  vim.bo[buffer].filetype = 'maestro-jobs'
  boards[buffer] = { client_id = client.id, rows = {} }
  map_keys(buffer)
  local follow = vim.api.nvim_create_autocmd('User', {
    pattern = 'MaestroJobs',
    callback = function()
      render(buffer)
    end,
  })
  vim.api.nvim_create_autocmd('BufWipeout', {
    buffer = buffer,
    callback = function()
      boards[buffer] = nil
      vim.api.nvim_del_autocmd(follow)
    end,
  })
  return buffer
end

--- Open the jobs below, or go to the window that shows them.
---@param client vim.lsp.Client
function M.open(client)
  for buffer, board in pairs(boards) do
    local window = vim.fn.bufwinid(buffer)
    if board.client_id == client.id and window ~= -1 then
      vim.api.nvim_set_current_win(window)
      return jobs.refresh(client)
    end
  end
  local buffer = make(client)
  vim.cmd('botright 8split')
  vim.api.nvim_win_set_buf(0, buffer)
  vim.wo[0][0].winbar = bar()
  vim.wo[0][0].wrap = false
  vim.wo[0][0].number = false
  vim.wo[0][0].relativenumber = false
  vim.wo[0][0].cursorline = true
  vim.wo[0][0].winfixheight = true
  render(buffer)
  jobs.refresh(client)
end

return M
