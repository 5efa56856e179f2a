--- `:LspMaestroTask`: what is typed, picked and selected becomes a task.
local dialogs = require('maestro.dialogs')
local jobs = require('maestro.jobs')
local messages = require('maestro.messages')
local server = require('maestro.server')
local text = require('maestro.text')

local M = {}

M.MODES = { 'plan', 'ask', 'edits', 'all' }
local SETTINGS = { piece = true, mode = true, model = true }
local LIST_MS = 2000

--- `piece=code mode=ask Make it so` as its parts; only leading words are settings.
---@param args string
---@return table<string, string> settings
---@return string instruction
function M.parse(args)
  local settings, rest = {}, vim.trim(args)
  while true do
    local key, value, after = rest:match('^(%l+)=(%S+)%s*(.*)$')
    if not key or not SETTINGS[key] then
      return settings, rest
    end
    settings[key], rest = value, after
  end
end

--- The lines of a range, or exactly what was selected by characters, as `selection` of `maestro.task.start`.
---@param client vim.lsp.Client
---@param first integer
---@param last integer
---@return table?
local function selection(client, first, last)
  if vim.bo.buftype ~= '' or vim.api.nvim_buf_get_name(0) == '' then
    text.notify(messages.text('task.no_file'), vim.log.levels.WARN)
    return nil
  end
  local from, to = { first, 0 }, { last, vim.v.maxcol }
  local start, finish = vim.fn.getpos("'<"), vim.fn.getpos("'>")
  if vim.fn.visualmode() == 'v' and start[2] == first and finish[2] == last then
    from, to = { first, start[3] - 1 }, { last, finish[3] - 1 }
  end
  to[2] = math.max(0, math.min(to[2], #vim.fn.getline(last) - 1))
  local params = vim.lsp.util.make_given_range_params(from, to, 0, client.offset_encoding)
  return { uri = vim.uri_from_bufnr(0), range = params.range }
end

---@param client vim.lsp.Client
---@param params table of `maestro.task.start`
local function submit(client, params)
  server.call(client, 'task.start', params, function(started)
    text.notify(messages.text('task.started', { id = text.short_id(started.taskId) }))
    jobs.refresh(client)
  end)
end

--- Start a task. Without an instruction, ask for the piece (unless named) and for the instruction.
---@param opts { args?: string, range?: integer, line1?: integer, line2?: integer }
function M.task(opts)
  local settings, instruction = M.parse(opts.args or '')
  server.with_client(function(client)
    local params = vim.tbl_extend('force', settings, { instruction = instruction })
    if (opts.range or 0) > 0 then
      params.selection = selection(client, opts.line1, opts.line2)
      if not params.selection then
        return
      end
    end
    if instruction ~= '' then
      return submit(client, params)
    end
    local function ask_instruction(piece)
      params.piece = piece
      local asked = piece and messages.text('task.instruction', { piece = piece }) or messages.text('task.instruction_any')
      dialogs.words(asked, function(words)
        params.instruction = words
        return words and submit(client, params)
      end)
    end
    if params.piece then
      ask_instruction(params.piece)
    else
      dialogs.piece(client, true, ask_instruction)
    end
  end)
end

--- The names that begin with what was typed.
---@param names string[]
---@param lead string
---@return string[]
function M.starting_with(names, lead)
  return vim.tbl_filter(function(name)
    return vim.startswith(name, lead)
  end, names)
end

--- What a command without params lists, for a completion: not longer than a person waits for it.
---@param command string
---@return table result empty where no server runs or it does not answer in time
local function listed(command)
  local client = server.running()
  if not client or not client.initialized then
    return {}
  end
  local params = { command = 'maestro.' .. command, arguments = { vim.empty_dict() } }
  local answer = client:request_sync('workspace/executeCommand', params, LIST_MS)
  return answer and answer.result or {}
end

---@return string[]
local function piece_names()
  return vim.tbl_map(function(piece)
    return piece.name
  end, listed('piece.list').pieces or {})
end

---@return string[]
local function model_names()
  return vim.tbl_map(function(worker)
    return worker.id
  end, listed('model.list').workers or {})
end

--- Completion of a piece's name.
---@param lead string
---@return string[]
function M.complete_piece(lead)
  return M.starting_with(piece_names(), lead)
end

--- Completion of `:LspMaestroTask`: settings while only settings were typed, then nothing.
---@param lead string
---@param line string
---@return string[]
function M.complete(lead, line)
  local typed = line:match('LspMaestroTask%s+(.*)$') or ''
  local before = typed:sub(1, #typed - #lead)
  if select(2, M.parse(before)) ~= '' then
    return {}
  end
  local values = { ['piece='] = piece_names, ['model='] = model_names, ['mode='] = function()
    return M.MODES
  end }
  for key, list in pairs(values) do
    if vim.startswith(lead, key) then
      return vim.tbl_map(function(name)
        return key .. name
      end, M.starting_with(list(), lead:sub(#key + 1)))
    end
  end
  return M.starting_with({ 'piece=', 'mode=', 'model=' }, lead)
end

return M
