if vim.g.loaded_maestro then
  return
end
vim.g.loaded_maestro = true

if vim.fn.has('nvim-0.11') == 0 then
  vim.notify(require('maestro.messages').text('too_old'), vim.log.levels.WARN)
  return
end

require('maestro.commands').define()
