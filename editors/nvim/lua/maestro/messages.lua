--- Everything the plugin says, in the person's language.
local config = require('maestro.config')

local M = {}

--- A text by its key; `{name}` is replaced by `values.name`. An unknown key is an error.
---@param key string
---@param values? table<string, string|integer>
---@return string
function M.text(key, values)
  local texts = require('maestro.messages.' .. (config.get().language == 'ja' and 'ja' or 'en'))
  local text = texts[key] or error('no text for ' .. key)
  return (text:gsub('{(%w+)}', function(name)
    return tostring(values and values[name] or error(('%s needs %s'):format(key, name)))
  end))
end

--- A text whose key may be missing, for names that the server may add to.
---@param key string
---@param otherwise string
---@param values? table<string, string|integer>
---@return string
function M.text_or(key, otherwise, values)
  local known, text = pcall(M.text, key, values)
  return known and text or otherwise
end

return M
