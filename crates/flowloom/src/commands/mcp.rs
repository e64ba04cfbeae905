//! `flowloom mcp DIR`: serves the definitions of a folder as MCP tools on stdio.

use flowloom_app::config::server::LogStyle;
use flowloom_app::engines::App;
use flowloom_app::redaction::build_log_redactor;

use super::run::choose_models;
use crate::cli::{Global, McpArgs};
use crate::failure::{CommandError, CommandResult};
use crate::terminal::log;

pub(crate) async fn serve_mcp(global: &Global, arguments: McpArgs) -> CommandResult {
    let mut config = global.load_config()?;
    choose_models(&mut config, &arguments.model);
    if !arguments.folder.is_dir() {
        return Err(CommandError::usage(format!("{} is not a folder", arguments.folder.display())));
    }
    let redactor = build_log_redactor(&config);
    let app = App::open(config)?;
    log::start_logging(LogStyle::Text, redactor);
    flowloom_server::serve_stdio(app, arguments.folder, &arguments.user).await?;
    Ok(0)
}
