//! `flowloom lsp`: the language server, on stdin and stdout.

use std::path::Path;
use std::sync::Arc;

use flowloom_app::config::project::ProjectTarget;
use flowloom_core::code::Code;
use flowloom_lsp::LanguageServer;

use crate::cli::Global;
use crate::failure::{CommandError, CommandResult};

pub(crate) async fn serve_editor(global: &Global) -> CommandResult {
    let global = global.clone();
    let load = move |path: &Path| global.read_config_for(Some(&ProjectTarget::Definition(path.to_owned())));
    let server = LanguageServer::new(Arc::new(load));
    match server.serve(tokio::io::stdin(), tokio::io::stdout()).await {
        Ok(()) => Ok(0),
        Err(error) => Err(CommandError::new(Code::UsageInvalid, error.to_string())),
    }
}
