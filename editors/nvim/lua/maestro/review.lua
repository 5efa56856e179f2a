--- What a request is about, before it is decided: its diff in diff mode, or the exact call. In a tab of its
--- own, which leaves the person's windows as they are.
local messages = require('maestro.messages')
local text = require('maestro.text')

local M = {}

local tabs = {} ---@type integer[]
local origin ---@type integer?

---@param name string shown in the window's bar
---@param lines string[]
---@param syntax string
local function fill(name, lines, syntax)
  local buffer = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  vim.bo[buffer].bufhidden = 'wipe'
  vim.bo[buffer].modifiable = false
  text.colour(buffer, syntax)
  vim.api.nvim_buf_set_name(buffer, ('maestro://review-%d'):format(buffer))
  vim.api.nvim_win_set_buf(0, buffer)
  vim.wo[0][0].winbar = (' ' .. name):gsub('%%', '%%%%')
  vim.wo[0][0].wrap = true
  vim.keymap.set('n', 'q', M.close, { buffer = buffer, desc = messages.text('review.close') })
  return buffer
end

---@param content? string
---@return string[]
local function lines_of(content)
  local lines = vim.split(content or '', '\n', { plain = true })
  if lines[#lines] == '' then
    table.remove(lines)
  end
  return lines
end

--- Diff mode cuts long lines off; what is decided must be seen to its end.
local function wrap_long_lines()
  for _, window in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
    local room = vim.api.nvim_win_get_width(window) - vim.fn.getwininfo(window)[1].textoff
    local lines = vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(window), 0, -1, false)
    vim.wo[window][0].wrap = vim.iter(lines):any(function(line)
      return vim.fn.strdisplaywidth(line) > room
    end)
  end
end

--- Two texts side by side in diff mode, in a new tab; the buffers.
---@param path string
---@param before? string
---@param after? string
---@return integer[]
function M.diff(path, before, after)
  origin = origin or vim.api.nvim_get_current_tabpage()
  vim.cmd('tab split')
  table.insert(tabs, vim.api.nvim_get_current_tabpage())
  local syntax = vim.filetype.match({ filename = path, contents = lines_of(after) }) or ''
  local shown = text.oneline(path)
  local old = fill(messages.text('review.before', { path = shown }), lines_of(before), syntax)
  vim.cmd.diffthis()
  vim.cmd('rightbelow vsplit')
  local new = fill(messages.text('review.after', { path = shown }), lines_of(after), syntax)
  vim.cmd.diffthis()
  wrap_long_lines()
  return { old, new }
end

---@param request maestro.Request
---@return string[]
local function details(request)
  local lines = { '# ' .. text.oneline(request.title), '' }
  local function add(key, value)
    if value and value ~= '' then
      vim.list_extend(lines, { ('%s: %s'):format(messages.text(key), text.oneline(value)) })
    end
  end
  add('review.why', request.why)
  add('review.rule', request.rule)
  for name, value in vim.spairs(request.arguments or {}) do
    vim.list_extend(lines, { '', name .. ':' })
    local told = type(value) == 'string' and value or vim.json.encode(value)
    for _, line in ipairs(lines_of(told)) do
      table.insert(lines, '    ' .. line)
    end
  end
  if request.detail and request.detail ~= '' then
    table.insert(lines, '')
    vim.list_extend(lines, lines_of(request.detail))
  end
  return lines
end

--- Show some lines in a tab of their own, which `q` closes; the buffer.
---@param name string
---@param lines string[]
---@param syntax string
---@return integer
function M.show(name, lines, syntax)
  M.close()
  origin = vim.api.nvim_get_current_tabpage()
  vim.cmd('tab split')
  table.insert(tabs, vim.api.nvim_get_current_tabpage())
  return fill(name, lines, syntax)
end

--- Show what a request is about. `<CR>` there decides it, `q` closes it.
---@param client_id integer
---@param request maestro.Request
function M.open(client_id, request)
  M.close()
  local buffers = {}
  for _, diff in ipairs(request.diff or {}) do
    local path = vim.fn.fnamemodify(vim.uri_to_fname(diff.uri), ':.')
    vim.list_extend(buffers, M.diff(path, diff.before, diff.after))
  end
  if #buffers == 0 then
    buffers = { M.show(messages.text('review.request'), details(request), 'markdown') }
  end
  vim.api.nvim_set_current_tabpage(tabs[1])
  local function decide()
    local client = vim.lsp.get_client_by_id(client_id)
    if client then
      require('maestro.ask').take_up(client, request)
    end
  end
  for _, buffer in ipairs(buffers) do
    vim.keymap.set('n', '<CR>', decide, { buffer = buffer, desc = messages.text('review.decide') })
  end
end

--- Close what is shown and go back to where the person was.
function M.close()
  local shown, back = tabs, origin
  tabs, origin = {}, nil
  local at = vim.api.nvim_get_current_tabpage()
  for _, tab in ipairs(shown) do
    if vim.api.nvim_tabpage_is_valid(tab) and #vim.api.nvim_list_tabpages() > 1 then
      vim.cmd.tabclose(vim.api.nvim_tabpage_get_number(tab))
    end
  end
  if vim.list_contains(shown, at) and back and vim.api.nvim_tabpage_is_valid(back) then
    vim.api.nvim_set_current_tabpage(back)
  end
end

return M
