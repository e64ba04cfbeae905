//! `flowloom mcp DIR`: serves the definitions of a folder as MCP tools on stdio.

use flowloom_app::config::server::LogStyle;
use flowloom_app::engines::App;

use super::run::choose_model;
use crate::cli::{Global, McpArgs};
use crate::failure::{Failure, Outcome};
use crate::terminal::log;

pub(crate) async fn mcp(global: &Global, arguments: McpArgs) -> Outcome {
    let mut config = global.load_config()?;
    choose_model(&mut config, &arguments.model);
    if !arguments.folder.is_dir() {
        return Err(Failure::usage(format!("{} is not a folder", arguments.folder.display())));
    }
    let app = App::open(config)?;
    log::start(LogStyle::Text);
    flowloom_server::serve_stdio(app, arguments.folder, &arguments.user).await?;
    Ok(0)
}
