--- The prompts: `vim.ui.select` and `vim.ui.input`, so that the person's own picker is used.
local messages = require('maestro.messages')
local review = require('maestro.review')
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
  return messages.text('choice.' .. choice.key, values)
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

--- Close the line that is being typed: what it would answer was settled elsewhere. Neovim's own list of
--- choices cannot be closed from here, nor can somebody else's picker; a choice made there comes too late.
function M.dismiss()
  if typing and vim.fn.getcmdtype() == '@' then
    vim.api.nvim_input('<C-c>')
  end
end

return M
