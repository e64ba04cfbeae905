-- Starts Flowloom's language server for JSON and Markdown files. It reports nothing about other files.
--
--   require('flowloom').setup({ program = 'flowloom' })

local flowloom = {}

local filetypes = { json = true, jsonc = true, markdown = true, ['markdown.mdx'] = true, mdx = true }

-- The nearest folder with a configuration, or else that of the file.
local function find_root(file)
  local folder = vim.fn.fnamemodify(file, ':p:h')
  local config = vim.fn.findfile('flowloom.toml', vim.fn.escape(folder, ' ') .. ';')
  return config ~= '' and vim.fn.fnamemodify(config, ':p:h') or folder
end

-- The commands behind the code lenses.
local function add_commands(program)
  vim.lsp.commands['flowloom.run'] = function(command)
    vim.cmd('split | terminal ' .. program .. ' run ' .. vim.fn.shellescape(vim.uri_to_fname(command.arguments[1])))
  end
  vim.lsp.commands['flowloom.test'] = function(command)
    local tests = vim.tbl_map(vim.fn.shellescape, command.arguments[1])
    vim.cmd('split | terminal ' .. program .. ' test ' .. table.concat(tests, ' '))
  end
  vim.lsp.commands['flowloom.showRun'] = function(command)
    vim.cmd('split | terminal ' .. program .. ' show ' .. vim.fn.shellescape(command.arguments[1]))
  end
  vim.lsp.commands['flowloom.debug'] = function(command)
    local is_installed, dap = pcall(require, 'dap')
    if not is_installed then
      vim.notify('stepping through a run needs nvim-dap; see the README', vim.log.levels.WARN)
      return
    end
    local played = command.arguments[1]
    dap.adapters.flowloom = dap.adapters.flowloom or { type = 'executable', command = program, args = { 'dap' } }
    dap.run({
      type = 'flowloom',
      request = 'launch',
      name = 'Last run',
      definition = vim.uri_to_fname(played.definition),
      run = played.run,
    })
  end
end

-- One server for each root.
local clients = {}

local function attach(buffer, options)
  local root = find_root(vim.api.nvim_buf_get_name(buffer))
  -- Newer versions keep one server for each root themselves.
  if vim.lsp.start then
    local config = { name = 'flowloom', cmd = { options.program, 'lsp' }, root_dir = root, on_attach = options.on_attach }
    vim.lsp.start(config, { bufnr = buffer })
    return
  end
  if not clients[root] then
    clients[root] = vim.lsp.start_client({
      name = 'flowloom',
      cmd = { options.program, 'lsp' },
      root_dir = root,
      on_attach = options.on_attach,
      on_exit = function()
        clients[root] = nil
      end,
    })
  end
  if clients[root] then
    vim.lsp.buf_attach_client(buffer, clients[root])
  end
end

function flowloom.setup(options)
  options = vim.tbl_extend('keep', options or {}, { program = 'flowloom' })
  add_commands(options.program)
  vim.cmd([[autocmd BufRead,BufNewFile *.mdx setfiletype mdx]])
  flowloom.attach = function(buffer)
    if filetypes[vim.bo[buffer].filetype] and vim.api.nvim_buf_get_name(buffer) ~= '' then
      attach(buffer, options)
    end
  end
  vim.cmd([[autocmd FileType * lua require('flowloom').attach(tonumber(vim.fn.expand('<abuf>')))]])
end

return flowloom
