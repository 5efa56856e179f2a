--- The component for the statusline.
local jobs = require('maestro.jobs')
local messages = require('maestro.messages')
local server = require('maestro.server')
local text = require('maestro.text')

local M = {}

local DOING_WIDTH = 36

--- One line about the workspace: the mode, what waits for the person, what runs. Empty where no server runs.
--- Safe in a statusline: `%` is doubled.
---@return string
function M.line()
  local client = server.running()
  if not client then
    return ''
  end
  local known = jobs.of(client.id)
  local waiting, running, doing = 0, 0, nil
  for id, job in pairs(known.jobs) do
    if job.status == 'waiting_human' then
      waiting = waiting + 1
    elseif jobs.ACTIVE[job.status] then
      running = running + 1
      doing = known.doing[id] or doing
    end
  end
  local parts = { known.mode and ('maestro[%s]'):format(known.mode) or 'maestro' }
  if waiting > 0 then
    table.insert(parts, messages.text('status.waiting', { count = waiting }))
  end
  if running > 0 then
    table.insert(parts, messages.text('status.running', { count = running }))
    table.insert(parts, doing and text.cut(text.oneline(doing), DOING_WIDTH) or nil)
  end
  return (table.concat(parts, ' · '):gsub('%%', '%%%%'))
end

return M
