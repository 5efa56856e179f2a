--- What a person's configuration uses: `require('maestro').status()` and the actions behind the commands.
local M = {}

--- The statusline component, e.g. `vim.o.statusline = '%f %m%=%{%v:lua.require("maestro").status()%} %l:%c'`.
---@return string
function M.status()
  return require('maestro.status').line()
end

--- Answer or decide the open request, or one of several; as `:LspMaestroAnswer`.
function M.answer()
  require('maestro.commands').answer({})
end

--- Open the jobs; as `:LspMaestroJobs`.
function M.jobs()
  require('maestro.commands').jobs()
end

return M
