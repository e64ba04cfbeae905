//! The workflows that are tools of an agent, for commands that describe it without running it.

use std::path::Path;
use std::sync::Arc;

use flowloom_app::config::Config;
use flowloom_app::definitions::source::LoadedDefinition;
use flowloom_app::engines::App;
use flowloom_app::tools::agents;
use flowloom_formats::agent;

use crate::failure::CommandError;

/// The user whose stored workflows are tools of an agent.
const LOCAL_USER: &str = "local";

/// The definition at `file`; an agent with the workflows that are its tools. Only for an agent, the data of the project is
/// opened if `app` is `None`.
pub(super) async fn attach_tools(
    config: &Config,
    app: Option<&Arc<App>>,
    source: LoadedDefinition,
    file: &Path,
    lenient: bool,
) -> Result<LoadedDefinition, CommandError> {
    if source.compiled.format != Some(agent::FORMAT) || source.is_refused() {
        return Ok(source);
    }
    let app = match app {
        Some(app) => app.clone(),
        None => Arc::new(App::open(config.clone())?),
    };
    Ok(agents::attach_workflows(&app.catalog_parts(), file, lenient, source, LOCAL_USER).await?)
}
