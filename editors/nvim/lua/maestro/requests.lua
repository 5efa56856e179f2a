--- Requests as the server has them: which are open, and how one is settled.
local server = require('maestro.server')

local M = {}

---@class maestro.Request a `Request` of the protocol; a question has only the first fields
---@field requestId string
---@field jobId string
---@field taskId? string
---@field reason string a wait reason
---@field title string
---@field options? string[]
---@field diff? { uri: string, before?: string, after: string }[]
---@field arguments? table
---@field detail? string
---@field rule? string
---@field why? string
---@field settled? table

---@class maestro.Answer of a question: text; of any other request: decision, scope, note
---@field text? string
---@field decision? 'allow'|'deny'
---@field scope? 'once'|'task'|'always'
---@field note? string

--- Whether a request is still open. Neovim's own list holds back what the server says while it is open, so
--- a choice may be about something that was settled long ago, and the person must hear of it.
---@param client_id integer
---@param request maestro.Request
---@param act fun(still: boolean)
function M.whether_open(client_id, request, act)
  local client = vim.lsp.get_client_by_id(client_id)
  if not client then
    return
  end
  server.call(client, 'task.show', { jobId = request.jobId }, function(job)
    act(vim.iter(job.requests):any(function(other)
      return other.requestId == request.requestId and not other.settled
    end))
  end, function()
    act(true)
  end)
end

--- Settle a request by a command, whoever asked it.
---@param client vim.lsp.Client
---@param request maestro.Request
---@param answer maestro.Answer
function M.settle(client, request, answer)
  if answer.text then
    local params = { jobId = request.jobId, requestId = request.requestId, text = answer.text }
    return server.call(client, 'task.answer', params)
  end
  local params = {
    requestId = request.requestId,
    decision = answer.decision,
    scope = answer.scope or 'once',
    note = answer.note,
  }
  server.call(client, 'request.decide', params)
end

--- The open requests of the workspace, oldest job first; `act` gets them with their jobs.
---@param client vim.lsp.Client
---@param act fun(found: { request: maestro.Request, job: maestro.Job }[])
function M.list_open(client, act)
  server.call(client, 'task.list', { status = { 'waiting_human' } }, function(result)
    local found, missing = {}, #result.jobs
    if missing == 0 then
      return act({})
    end
    for _, summary in ipairs(result.jobs) do
      server.call(client, 'task.show', { jobId = summary.jobId }, function(job)
        for _, request in ipairs(job.requests) do
          if not request.settled then
            table.insert(found, { request = request, job = job })
          end
        end
        missing = missing - 1
        if missing == 0 then
          table.sort(found, function(a, b)
            return a.request.createdAt < b.request.createdAt
          end)
          act(found)
        end
      end)
    end
  end)
end

return M
