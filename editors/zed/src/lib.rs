//! The extension for Zed: starts `flowloom lsp` for JSON and Markdown files.

use zed_extension_api::{self as zed, Command, LanguageServerId, Result, Worktree};

struct FlowloomExtension;

impl zed::Extension for FlowloomExtension {
    fn new() -> Self {
        FlowloomExtension
    }

    fn language_server_command(&mut self, _id: &LanguageServerId, worktree: &Worktree) -> Result<Command> {
        let command = worktree.which("flowloom").ok_or("the program flowloom is not in the search path")?;
        Ok(Command { command, args: vec!["lsp".to_owned()], env: worktree.shell_env() })
    }
}

zed::register_extension!(FlowloomExtension);
