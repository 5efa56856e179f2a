---@brief
--- The language server of maestro, an agent server: tasks work on the open workspace, ask, wait and go on.
---
--- `vim.lsp.enable('maestro')` starts it for every file below a root marker; `vim.lsp.config('maestro', {...})`
--- changes what is here. The commands are global and not made in `on_attach`: a task is about the workspace,
--- not about the buffer one happens to look at.
local hooks = require('maestro.hooks')

---@type vim.lsp.Config
return {
  cmd = { 'maestro-lsp', '--stdio' },
  root_markers = { '.maestro', '.git' },
  -- A file without a project must not make its folder, perhaps the home folder, a place to work in.
  workspace_required = true,
  -- `trusted` is not said here: the server remembers what the person said of each workspace.
  init_options = {},
  capabilities = { experimental = { maestro = { approve = true, input = true } } },
  handlers = hooks.handlers,
  before_init = hooks.before_init,
  on_init = hooks.on_init,
  on_exit = hooks.on_exit,
}
