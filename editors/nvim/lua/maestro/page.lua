--- One job in a buffer that follows it: what it was told, what it did, what it asked, how it ended.
local board = require('maestro.board')
local jobs = require('maestro.jobs')
local messages = require('maestro.messages')
local review = require('maestro.review')
local server = require('maestro.server')
local text = require('maestro.text')

local M = {}

local SETTLE_MS = 100

---@type table<string, { buffer: integer, client_id: integer, due: boolean }>
local pages = {}

local timeline = {}

-- Not here, on purpose: what streams (text, reasoning, output), what the head of the page tells (usage), and
-- what only a maker of pieces wants to know (cache, cache_break).

function timeline.movement(event)
  return ('▸ %s%s'):format(event.name, event.forced and (' (%s)'):format(messages.text('page.forced')) or '')
end

function timeline.piece(event)
  return ('  · %s'):format(messages.text_or('piece.' .. event.by, event.piece, { piece = event.piece }))
end

function timeline.status(event)
  return event.to == 'queued' and event.reason == 'rate_limited' and ('  … %s'):format(messages.text('wait.busy'))
end

function timeline.context(event)
  return ('  … %s'):format(messages.text('page.context', { percent = math.floor(event.ratio * 100 + 0.5) }))
end

function timeline.reverted(event)
  return ('  ↶ %s'):format(messages.text('revert.done', { count = event.count, kept = event.kept }))
end

function timeline.text(event)
  return event.full and ('  %s'):format(event.full)
end

function timeline.tool_call(event)
  return ('  · %s'):format(event.title)
end

function timeline.tool_result(event)
  return ('    %s %s'):format(event.ok and '✓' or '✗', event.brief)
end

function timeline.transition(event)
  return ('  → %s: %s'):format(event.to, event.summary)
end

function timeline.request(event)
  return ('  ? %s'):format(event.request.title)
end

function timeline.decision(event)
  local said = messages.text_or('decision.' .. event.decision, event.decision)
  return ('  = %s%s (%s)'):format(said, event.note and ': ' .. event.note or '', event.by)
end

function timeline.comment(event)
  return ('  %s: %s'):format(event.author, event.text)
end

function timeline.error(event)
  return ('  ! %s'):format(event.message)
end

--- Prose as it is, line by line; nothing in it can draw over the page.
---@param lines string[]
---@param prose string
local function add_prose(lines, prose)
  for _, line in ipairs(vim.split(vim.trim(prose), '\n', { plain = true })) do
    table.insert(lines, text.oneline(line))
  end
end

---@param job table a `JobDetail`
---@param events table[]
---@return string[]
local function lines_of(job, events)
  local state = messages.text_or('state.' .. job.status, job.status)
  if job.forced and not jobs.ACTIVE[job.status] and job.status ~= 'cancelled' then
    state = ('%s (%s)'):format(state, messages.text('state.forced'))
  end
  local wait = board.put_off(job)
  if job.waitReason then
    wait = messages.text_or('wait.' .. job.waitReason, job.waitReason)
  end
  local lines = { '# ' .. text.oneline(job.title), '' }
  table.insert(lines, table.concat({
    wait and ('%s (%s)'):format(state, wait) or state,
    job.piece or '–',
    job.mode,
    messages.text('page.cost', { calls = job.usage.calls, tokens = board.tokens(job) }),
    job.jobId,
  }, ' · '))
  local function section(key)
    vim.list_extend(lines, { '', '## ' .. messages.text(key), '' })
  end
  section('page.instruction')
  add_prose(lines, job.instruction)
  if job.result then
    section('page.result')
    add_prose(lines, job.result)
  end
  section('page.course')
  for _, event in ipairs(events) do
    local told = timeline[event.kind] and timeline[event.kind](event)
    if told then
      for _, line in ipairs(vim.split(told, '\n', { plain = true })) do
        table.insert(lines, text.oneline(line))
      end
    end
  end
  return lines
end

---@param job_id string
local function render(job_id)
  local page = pages[job_id]
  local client = page and vim.lsp.get_client_by_id(page.client_id)
  if not page or not client then
    return
  end
  page.due = false
  server.call(client, 'task.show', { jobId = job_id }, function(job)
    server.call(client, 'task.events', { jobId = job_id }, function(found)
      if pages[job_id] ~= page then
        return
      end
      local lines = lines_of(job, found.events)
      local last = vim.api.nvim_buf_line_count(page.buffer)
      vim.bo[page.buffer].modifiable = true
      vim.api.nvim_buf_set_lines(page.buffer, 0, -1, false, lines)
      vim.bo[page.buffer].modifiable = false
      for _, window in ipairs(vim.fn.win_findbuf(page.buffer)) do
        if last > 1 and vim.api.nvim_win_get_cursor(window)[1] == last then
          vim.api.nvim_win_set_cursor(window, { #lines, 0 }) -- who stands at the end follows it
        end
      end
    end)
  end)
end

--- Something happened in a job: its page, if there is one, is drawn anew soon.
---@param job_id string
function M.outdated(job_id)
  local page = pages[job_id]
  if page and not page.due then
    page.due = true
    vim.defer_fn(function()
      render(job_id)
    end, SETTLE_MS)
  end
end

--- Open the page of a job in a tab, or go to it.
---@param client vim.lsp.Client
---@param job maestro.Job
function M.open(client, job)
  local page = pages[job.jobId]
  local window = page and vim.fn.win_findbuf(page.buffer)[1]
  if window then
    vim.api.nvim_set_current_win(window)
    return render(job.jobId)
  end
  local buffer = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_name(buffer, 'maestro://' .. job.jobId)
  vim.bo[buffer].bufhidden = 'wipe'
  text.colour(buffer, 'markdown')
  pages[job.jobId] = { buffer = buffer, client_id = client.id, due = false }
  local follow = vim.api.nvim_create_autocmd('User', {
    pattern = 'MaestroJobs',
    callback = function()
      M.outdated(job.jobId)
    end,
  })
  vim.api.nvim_create_autocmd('BufWipeout', {
    buffer = buffer,
    callback = function()
      pages[job.jobId] = nil
      vim.api.nvim_del_autocmd(follow)
    end,
  })
  vim.keymap.set('n', 'q', '<Cmd>close<CR>', { buffer = buffer, desc = messages.text('key.close') })
  vim.keymap.set('n', 'a', function()
    require('maestro.commands').answer({ job = job.jobId })
  end, { buffer = buffer, desc = messages.text('key.answer') })
  vim.cmd('tab split')
  vim.api.nvim_win_set_buf(0, buffer)
  local keys = { 'a ' .. messages.text('key.answer'), 'q ' .. messages.text('key.close') }
  vim.wo[0][0].winbar = ' maestro   ' .. table.concat(keys, '   ')
  vim.wo[0][0].wrap = true
  vim.wo[0][0].linebreak = true
  vim.wo[0][0].breakindent = true
  if jobs.ACTIVE[job.status] then
    server.call(client, 'task.watch', { jobId = job.jobId, on = true })
  end
  render(job.jobId)
end

--- Show what a job changed, file by file in diff mode.
---@param client vim.lsp.Client
---@param job maestro.Job
function M.changes(client, job)
  server.call(client, 'task.changes', { jobId = job.jobId }, function(result)
    local shown = vim.tbl_filter(function(file)
      return not file.binary
    end, result.files)
    if #shown == 0 then
      return text.notify(messages.text('jobs.no_changes'))
    end
    review.close()
    for _, file in ipairs(shown) do
      review.diff(file.path, file.before, file.after)
    end
  end)
end

return M
