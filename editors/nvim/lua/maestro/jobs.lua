--- What is known of the jobs: as the server last said, never decided here.
local server = require('maestro.server')

local M = {}

---@class maestro.Job a `JobSummary` of the protocol
---@field jobId string
---@field taskId string
---@field title string
---@field piece? string
---@field movement? string
---@field status string
---@field waitReason? string
---@field reason? string
---@field openRequests string[]
---@field createdAt string
---@field usage table
---@field parentId? string
---@field notBefore? string
---@field forced? boolean

---@class maestro.Known
---@field jobs table<string, maestro.Job>
---@field doing table<string, string> what a running job does, by its id
---@field mode? string

---@type table<integer, maestro.Known>
local known = {}

M.ACTIVE = { queued = true, running = true, waiting_human = true, waiting_subtasks = true }

---@param client_id integer
---@return maestro.Known
function M.of(client_id)
  known[client_id] = known[client_id] or { jobs = {}, doing = {} }
  return known[client_id]
end

--- Say that something changed: to the jobs buffer, and to whoever listens to the event `User MaestroJobs`.
function M.changed()
  vim.api.nvim_exec_autocmds('User', { pattern = 'MaestroJobs', modeline = false })
  vim.cmd.redrawstatus({ bang = true })
end

---@param client_id integer
---@param job maestro.Job
function M.put(client_id, job)
  M.of(client_id).jobs[job.jobId] = job
  M.changed()
end

---@param client_id integer
---@param job_id string
---@param message? string nil: it does nothing any more
function M.does(client_id, job_id, message)
  M.of(client_id).doing[job_id] = message
  M.changed()
end

---@param client_id integer
function M.forget(client_id)
  known[client_id] = nil
  M.changed()
end

--- Fetch all jobs and the mode; `done` is called when they are there.
---@param client vim.lsp.Client
---@param done? fun()
function M.refresh(client, done)
  server.call(client, 'status', {}, function(status)
    M.of(client.id).mode = status.mode
    M.changed()
  end, function() end)
  server.call(client, 'task.list', {}, function(result)
    local found = {} ---@type table<string, maestro.Job>
    for _, job in ipairs(result.jobs) do
      found[job.jobId] = job
    end
    M.of(client.id).jobs = found
    M.changed()
    if done then
      done()
    end
  end, function() end) -- what keeps the server from its store, it says itself
end

--- Whether a job is another one, or stands below it.
---@param client_id integer
---@param job maestro.Job
---@param within string the id of the other one
---@return boolean
function M.is_within(client_id, job, within)
  local at, seen = job, {}
  while at and not seen[at.jobId] do
    if at.jobId == within then
      return true
    end
    seen[at.jobId] = true
    at = M.of(client_id).jobs[at.parentId or '']
  end
  return false
end

--- The jobs below a job, at any depth, that wait for the person.
---@param client_id integer
---@param job maestro.Job
---@return maestro.Job[]
function M.waiting_below(client_id, job)
  return vim.tbl_filter(function(other)
    return other ~= job and other.status == 'waiting_human' and M.is_within(client_id, other, job.jobId)
  end, vim.tbl_values(M.of(client_id).jobs))
end

--- The jobs, newest first, each followed by its subtasks.
---@param client_id integer
---@param want? fun(job: maestro.Job): boolean
---@return { job: maestro.Job, depth: integer }[]
function M.list(client_id, want)
  local jobs = vim.tbl_values(M.of(client_id).jobs)
  table.sort(jobs, function(a, b)
    return a.createdAt == b.createdAt and a.jobId > b.jobId or a.createdAt > b.createdAt
  end)
  local children, found = {}, {}
  for _, job in ipairs(jobs) do
    local parent = job.parentId and M.of(client_id).jobs[job.parentId] and job.parentId or ''
    children[parent] = children[parent] or {}
    table.insert(children[parent], job)
  end
  local function add(parent, depth)
    for _, job in ipairs(children[parent] or {}) do
      if not want or want(job) then
        table.insert(found, { job = job, depth = depth })
      end
      add(job.jobId, depth + 1)
    end
  end
  add('', 0)
  return found
end

return M
