//! `flowloom lsp` and `flowloom dap`: the language server and the debugger, on stdin and stdout.

use std::path::Path;
use std::sync::Arc;

use flowloom_app::config::project::ProjectTarget;
use flowloom_core::code::Code;
use flowloom_lsp::{ConversationEnd, LanguageServer, LoadConfig, serve_debugger};

use crate::cli::Global;
use crate::failure::{CommandError, CommandResult};

pub(crate) async fn serve_editor(global: &Global) -> CommandResult {
    let server = LanguageServer::new(new_loader(global));
    match server.serve(tokio::io::stdin(), tokio::io::stdout()).await {
        Ok(ConversationEnd::Regular) => Ok(0),
        // The protocol wants it so.
        Ok(ConversationEnd::WithoutShutdown) => Ok(1),
        Err(error) => Err(CommandError::new(Code::UsageInvalid, error.to_string())),
    }
}

pub(crate) async fn debug_runs(global: &Global) -> CommandResult {
    match serve_debugger(new_loader(global), tokio::io::stdin(), tokio::io::stdout()).await {
        Ok(()) => Ok(0),
        Err(error) => Err(CommandError::new(Code::UsageInvalid, error.to_string())),
    }
}

/// Reads the configuration of the project around a definition.
fn new_loader(global: &Global) -> LoadConfig {
    let global = global.clone();
    Arc::new(move |path: &Path| global.read_config_for(Some(&ProjectTarget::Edited(path.to_owned()))))
}
