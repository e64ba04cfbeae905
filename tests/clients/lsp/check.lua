-- Drives `flowloom lsp` with Neovim's own client, and writes what it sees.
--
--   FLOWLOOM=PROGRAM nvim --headless --clean -c 'set runtimepath^=FOLDER' -c 'luafile check.lua'

local function say(text)
  io.stdout:write(text .. '\n')
end

local function fail(text)
  say('failed: ' .. text)
  vim.cmd('cquit')
end

local function wait_for(what, condition)
  if not vim.wait(30000, condition, 20) then
    fail('no ' .. what)
  end
end

local function ask(method, params)
  local answers = vim.lsp.buf_request_sync(0, method, params, 30000)
  for _, answer in pairs(answers or {}) do
    if answer.error then
      fail(method .. ': ' .. answer.error.message)
    end
    return answer.result
  end
  fail('no answer to ' .. method)
end

local function check()
  vim.cmd('filetype on')
  require('flowloom').setup({ program = os.getenv('FLOWLOOM') })
  vim.cmd('edit weather.json')
  wait_for('diagnostics', function()
    return #vim.diagnostic.get(0) > 0
  end)
  for _, one in ipairs(vim.diagnostic.get(0)) do
    say('problem ' .. one.code .. ' in line ' .. (one.lnum + 1) .. ': ' .. one.message:gsub('\n.*', ''))
  end
  local params = vim.lsp.util.make_range_params()
  params.range = { start = { line = 0, character = 0 }, ['end'] = { line = 20, character = 0 } }
  params.context = { diagnostics = {} }
  local action = ask('textDocument/codeAction', params)[1]
  vim.lsp.util.apply_workspace_edit(action.edit, 'utf-16')
  say('applied ' .. action.title)
  wait_for('fixed text', function()
    return #vim.diagnostic.get(0) == 0
  end)
  vim.fn.search('{city}')
  vim.cmd('normal! 2l')
  say('hover ' .. ask('textDocument/hover', vim.lsp.util.make_position_params()).contents.value:gsub('\n\n', ' | '))
  local rename = vim.lsp.util.make_position_params()
  rename.newName = 'town'
  vim.lsp.util.apply_workspace_edit(ask('textDocument/rename', rename), 'utf-16')
  for _, line in ipairs(vim.api.nvim_buf_get_lines(0, 0, -1, false)) do
    say(line)
  end
  vim.cmd('qall!')
end

local ok, message = pcall(check)
if not ok then
  fail(tostring(message))
end
