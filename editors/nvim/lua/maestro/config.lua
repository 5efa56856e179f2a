--- What the person set in `vim.g.maestro`.
local M = {}

---@class maestro.Config
---@field language 'en'|'ja' the language of the plugin and of what the server shows
---@field prompt 'idle'|'now'|'never' when a request may open its prompt by itself

---@return 'en'|'ja'
local function language_of_environment()
  local locale = vim.env.LC_ALL or vim.env.LC_MESSAGES or vim.env.LANG or ''
  return locale:match('^ja') and 'ja' or 'en'
end

--- The settings, read anew each time so that a change counts at once.
---@return maestro.Config
function M.get()
  local given = type(vim.g.maestro) == 'table' and vim.g.maestro or {}
  return {
    language = given.language or language_of_environment(),
    prompt = given.prompt or 'idle',
  }
end

return M
