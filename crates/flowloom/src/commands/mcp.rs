//! `flowloom mcp DIR`: serves the definitions of a folder as MCP tools on stdio.

use super::run::choose_model;
use crate::app::App;
use crate::cli::{Global, McpArgs};
use crate::config::Config;
use crate::failure::{Failure, Outcome};
use crate::server::mcp::stdio;

pub(crate) async fn mcp(global: &Global, arguments: McpArgs) -> Outcome {
    let mut config = Config::load(global)?;
    choose_model(&mut config, &arguments.model);
    if !arguments.folder.is_dir() {
        return Err(Failure::usage(format!("{} is not a folder", arguments.folder.display())));
    }
    stdio::serve(App::open(config)?, arguments.folder, &arguments.user).await?;
    Ok(0)
}
