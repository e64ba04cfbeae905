//! `flowloom serve DIR`: serves the definitions of a folder over HTTP.

use super::run::choose_model;
use crate::app::App;
use crate::cli::{Global, ServeArgs};
use crate::config::Config;
use crate::failure::{Failure, Outcome};
use crate::server::{self, Options};

pub(crate) async fn serve(global: &Global, arguments: ServeArgs) -> Outcome {
    let mut config = Config::load(global)?;
    choose_model(&mut config, &arguments.model);
    if !arguments.folder.is_dir() {
        return Err(Failure::usage(format!("{} is not a folder", arguments.folder.display())));
    }
    let options = Options {
        folder: arguments.folder,
        bind: arguments.bind,
        hosts: arguments.host,
        max_runs: arguments.max_runs,
        log: arguments.log.unwrap_or(config.server.log),
    };
    server::serve(App::open(config)?, options).await?;
    Ok(0)
}
