--- The prompts: `vim.ui.select` and `vim.ui.input`, so that the person's own picker is used.
local jobs = require('maestro.jobs')
local messages = require('maestro.messages')
local review = require('maestro.review')
local server = require('maestro.server')
local text = require('maestro.text')

local M = {}

---@class maestro.Choice
---@field key string its text is `choice.<key>`
---@field answer? maestro.Answer
---@field note? boolean ask for a note first
---@field looks? boolean leave what is shown open
---@field storing? boolean only if the request says what rule it would store

---@type maestro.Choice[]
local APPROVAL = {
  { key = 'once', answer = { decision = 'allow', scope = 'once' } },
  { key = 'task', answer = { decision = 'allow', scope = 'task' }, storing = true },
  { key = 'always', answer = { decision = 'allow', scope = 'always' }, storing = true },
  { key = 'deny', answer = { decision = 'deny', scope = 'once' } },
  { key = 'deny_note', answer = { decision = 'deny', scope = 'once' }, note = true },
  { key = 'look', looks = true },
}

---@type maestro.Choice[]
local GO_ON = {
  { key = 'go_on', answer = { decision = 'allow', scope = 'once' } },
  { key = 'stop', answer = { decision = 'deny', scope = 'once' } },
  { key = 'later' },
}

---@type maestro.Choice[]
local BROWSER = {
  { key = 'done', answer = { decision = 'allow', scope = 'once' } },
  { key = 'cannot', answer = { decision = 'deny', scope = 'once' } },
  { key = 'later' },
}

--- The choices by wait reason; any other is an approval.
local CHOICES = {
  interrupted = GO_ON,
  crashed = GO_ON,
  budget = GO_ON,
  browser_login = BROWSER,
  captcha = BROWSER,
}

local typing = false

--- Call back once, whatever the picker does.
---@param done function
---@return function
local function once(done)
  local called = false
  return function(...)
    if not called then
      called = true
      done(...)
    end
  end
end

---@param title string
---@return string
local function prompt(title)
  return text.cut(text.oneline(title), vim.o.columns * 4)
end

--- Free words; nil if the prompt was closed or left empty.
---@param title string
---@param done fun(words?: string)
function M.words(title, done)
  vim.cmd.redraw()
  typing = true
  vim.ui.input({ prompt = title .. ' ' }, function(words)
    typing = false
    done(words and vim.trim(words) ~= '' and words or nil)
  end)
end

---@param request maestro.Request
---@param done fun(answer?: maestro.Answer, looks?: boolean)
local function question(request, done)
  local function own_words()
    M.words(prompt(request.title) .. ' ' .. messages.text('ask.own_words'), function(words)
      done(words and { text = words } or nil)
    end)
  end
  local items = {}
  for _, option in ipairs(request.options or {}) do
    table.insert(items, { text = option, shown = text.oneline(option) })
  end
  if #items == 0 then
    return own_words()
  end
  table.insert(items, { own = true, shown = messages.text('choice.own_words') })
  table.insert(items, { shown = messages.text('choice.later') })
  local shown = function(item)
    return item.shown
  end
  local opts = { prompt = prompt(request.title), kind = 'maestro_question', format_item = shown }
  vim.ui.select(items, opts, function(item)
    if item and item.own then
      return own_words()
    end
    done(item and item.text and { text = item.text } or nil)
  end)
end

---@param choice maestro.Choice
---@param request maestro.Request
---@return string
local function label(choice, request)
  local values = { rule = text.oneline(request.rule or '') }
  local usual = messages.text('choice.' .. choice.key, values)
  return messages.text_or(('choice.%s_%s'):format(choice.key, request.reason), usual)
end

---@param request maestro.Request
---@param choice? maestro.Choice
---@param done fun(answer?: maestro.Answer, looks?: boolean)
local function chosen(request, choice, done)
  if choice and choice.note then
    return M.words(messages.text('ask.note'), function(words)
      review.close()
      done(words and vim.tbl_extend('force', choice.answer, { note = words }) or nil)
    end)
  end
  local looks = choice ~= nil and choice.looks or false
  if not looks then
    review.close()
  end
  done(choice and choice.answer, looks)
end

---@param client_id integer
---@param request maestro.Request
---@param done fun(answer?: maestro.Answer, looks?: boolean)
local function approval(client_id, request, done)
  local choices = vim.tbl_filter(function(choice)
    return not choice.storing or (request.rule or '') ~= ''
  end, CHOICES[request.reason] or APPROVAL)
  review.open(client_id, request)
  vim.cmd.redraw()
  local why = request.why and request.why ~= '' and (' (%s)'):format(request.why) or ''
  local opts = {
    prompt = prompt(request.title .. why),
    kind = 'maestro_approve',
    format_item = function(choice)
      return label(choice, request)
    end,
  }
  vim.ui.select(choices, opts, function(choice)
    chosen(request, choice, done)
  end)
end

--- Ask a request; `done` gets the answer, or nil if it stays open (`looks`: what it is about stays on screen).
---@param client_id integer
---@param request maestro.Request
---@param done fun(answer?: maestro.Answer, looks?: boolean)
function M.ask(client_id, request, done)
  if request.reason == 'question' then
    question(request, once(done))
  else
    approval(client_id, request, once(done))
  end
end

--- Let the person pick a job of those that fit; the only one is taken at once.
---@param client vim.lsp.Client
---@param fits fun(job: maestro.Job): boolean
---@param none string the key of what is told where none fits
---@param act fun(job: maestro.Job)
function M.job(client, fits, none, act)
  jobs.refresh(client, function()
    local found = jobs.list(client.id, fits)
    if #found == 0 then
      return text.notify(messages.text(none))
    elseif #found == 1 then
      return act(found[1].job)
    end
    local opts = { prompt = messages.text('jobs.which'), kind = 'maestro_job' }
    opts.format_item = function(item)
      local state = messages.text_or('state.' .. item.job.status, item.job.status)
      return ('%s  %s  %s'):format(text.short_id(item.job.jobId), text.pad(state, 12), text.oneline(item.job.title))
    end
    vim.ui.select(found, opts, function(item)
      return item and act(item.job)
    end)
  end)
end

--- Let the person pick a piece. With `any` the server may choose: that is the first, and gives nil.
---@param client vim.lsp.Client
---@param any boolean
---@param act fun(piece?: string)
function M.piece(client, any, act)
  server.call(client, 'piece.list', {}, function(result)
    local opts = { prompt = messages.text('task.which_piece'), kind = 'maestro_piece' }
    opts.format_item = function(piece)
      local faulty = vim.iter(piece.problems):any(function(problem)
        return problem.severity == 'error'
      end)
      local said = faulty and messages.text('task.faulty') or text.oneline(piece.description)
      local name = piece.name and text.pad(piece.name, 14) or messages.text('task.any_piece')
      return text.cut(('%s  %s'):format(name, said), vim.o.columns - 5) -- a line each, with its number before it
    end
    local items = result.pieces
    if any then
      table.insert(items, 1, { problems = {}, description = messages.text('task.any_piece_is') })
    end
    vim.ui.select(items, opts, function(piece)
      return piece and act(piece.name)
    end)
  end)
end

--- Close the line that is being typed: what it would answer was settled elsewhere. Neovim's own list of
--- choices cannot be closed from here, nor can somebody else's picker; a choice made there comes too late.
function M.dismiss()
  if typing and vim.fn.getcmdtype() == '@' then
    vim.api.nvim_input('<C-c>')
  end
end

return M
