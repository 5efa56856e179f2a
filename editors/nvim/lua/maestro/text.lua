--- Outside text on its way to the screen, and short messages.
local M = {}

local NAMED = { ['\n'] = '\\n', ['\r'] = '\\r', ['\t'] = '\\t' }

--- Text on one line, with everything that would be invisible or turn the line around shown by its code:
--- what a person approves must not pose as something else.
---@param text string
---@return string
function M.oneline(text)
  return vim.fn.strtrans((text:gsub('[\n\r\t]', NAMED)))
end

--- The beginning of a text, at most `width` screen cells wide.
---@param text string
---@param width integer
---@return string
function M.cut(text, width)
  if vim.fn.strdisplaywidth(text) <= width then
    return text
  end
  local low, high = 0, vim.fn.strchars(text)
  while low < high do
    local middle = math.ceil((low + high) / 2)
    if vim.fn.strdisplaywidth(vim.fn.strcharpart(text, 0, middle)) <= width - 1 then
      low = middle
    else
      high = middle - 1
    end
  end
  return vim.fn.strcharpart(text, 0, low) .. '…'
end

--- Text cut or filled up with spaces to exactly `width` screen cells.
---@param text string
---@param width integer
---@return string
function M.pad(text, width)
  local shown = M.cut(text, width)
  return shown .. (' '):rep(width - vim.fn.strdisplaywidth(shown))
end

--- The last characters of an id, as people see it.
---@param id string
---@return string
function M.short_id(id)
  return #id > 8 and ('%s-…%s'):format(id:sub(1, 1), id:sub(-4)) or id
end

--- The time of the day of a moment, as in this place of the world.
---@param iso string ISO 8601 UTC
---@return string
function M.clock(iso)
  local read = vim.fn.strptime('%Y-%m-%dT%H:%M:%S', iso:sub(1, 19)) -- as if it were local time
  local utc = os.date('!*t', read) --[[@as osdate]]
  utc.isdst = os.date('*t', read).isdst
  return os.date('%H:%M:%S', read + (read - os.time(utc))) --[[@as string]]
end

--- Colour a buffer as a kind of file, without its file type: that would attach language servers to it.
---@param buffer integer
---@param kind string
function M.colour(buffer, kind)
  local language = vim.treesitter.language.get_lang(kind)
  if not (language and pcall(vim.treesitter.start, buffer, language)) then
    vim.bo[buffer].syntax = kind
  end
end

--- Tell the person something in one line. Neovim's own `vim.notify` would ask for Enter after a longer one,
--- and swallow the key that was meant for the text; a notification plugin gets the whole.
---@param text string
---@param level? integer of `vim.log.levels`
function M.notify(text, level)
  local shown = M.oneline(text)
  local builtin = (debug.getinfo(vim.notify, 'S').source or ''):find('_editor', 1, true)
  if builtin then
    shown = M.cut(shown, math.max(20, vim.v.echospace))
    vim.cmd.redraw() -- else what a prompt left on the screen and this are two messages, and ask for Enter
  end
  vim.notify(shown, level or vim.log.levels.INFO, { title = 'maestro' })
end

return M
