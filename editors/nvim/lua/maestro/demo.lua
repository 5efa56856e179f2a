--- `maestro-lsp demo --editor nvim`: the demo's task in this Neovim. Told by the environment, as JSON in
--- `MAESTRO_NVIM_DEMO`: `cmd`, `instruction`, `piece`, `language`.
local messages = require('maestro.messages')

local M = {}

local END_MS = 5000

--- The demo's folder goes away with Neovim, so the server must be gone by then.
local function end_server_first()
  for _, client in ipairs(vim.lsp.get_clients({ _uninitialized = true })) do
    client:stop()
  end
  vim.wait(END_MS, function()
    return #vim.lsp.get_clients({ _uninitialized = true }) == 0
  end, 20)
end

--- Set Neovim up for the demo and start its task.
function M.run()
  local told = vim.json.decode(vim.env.MAESTRO_NVIM_DEMO)
  vim.g.maestro = { language = told.language }
  vim.o.statusline = ' %f %m%=%{%v:lua.require("maestro").status()%} '
  vim.o.laststatus = 3
  vim.o.termguicolors = vim.env.COLORTERM ~= nil
  vim.o.shortmess = vim.o.shortmess .. 'I'
  vim.lsp.config('maestro', {
    cmd = told.cmd,
    root_dir = vim.fn.getcwd(),
    init_options = { trusted = true, mode = 'ask' },
  })
  vim.lsp.enable('maestro')
  vim.api.nvim_create_autocmd('VimLeavePre', { callback = end_server_first })
  local file = vim.api.nvim_get_current_win()
  require('maestro.server').with_client(function(client)
    require('maestro.board').open(client)
    vim.api.nvim_set_current_win(file)
    require('maestro.text').notify(messages.text('demo.intro'))
    if told.instruction then
      require('maestro.start').task({ args = ('piece=%s %s'):format(told.piece, told.instruction) })
    end
  end)
end

return M
