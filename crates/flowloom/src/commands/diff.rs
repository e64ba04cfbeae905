//! `flowloom diff`: compares two runs, two definitions, or the definition of a run with another one.

use std::path::Path;

use flowloom_app::config::project::ProjectTarget;
use flowloom_app::definitions::find::find_named;
use flowloom_app::definitions::source::Loader;
use flowloom_app::definitions::versions::{VersionName, compile_version};
use flowloom_app::diff::called::ComparedDefinition;
use flowloom_app::diff::definitions::compare_definitions;
use flowloom_app::diff::runs::compare_runs;
use flowloom_store::SHARED_USER;

use super::agent_tools::attach_tools;
use super::results::print_json;
use crate::cli::{DiffArgs, Global};
use crate::failure::{CommandError, CommandResult};
use crate::print::print_wrapped;
use crate::terminal::diff::{render_definition_diff, render_run_diff};

/// The exit code if the two differ.
const EXIT_DIFFERENT: u8 = 1;

/// Compares two runs, or two definitions. The exit code is 1 if they differ.
pub(crate) async fn compare(global: &Global, arguments: &DiffArgs) -> CommandResult {
    let same = match is_definition(global, arguments)? {
        false => {
            let app = global.open_existing()?;
            let (a, b) = (app.runs.open_run(&arguments.a).await?, app.runs.open_run(&arguments.b).await?);
            let diff = compare_runs(&app.runs, &a, &b).await?;
            match global.json {
                true => print_json(&diff),
                false => print_wrapped(render_run_diff(&diff, arguments.verbose).trim_end(), 6),
            }
            diff.same
        }
        true => {
            let (mut a, mut b) =
                (load_definition(global, &arguments.a).await?, load_definition(global, &arguments.b).await?);
            ComparedDefinition::forget_file_names(&mut a, &mut b);
            let diff = compare_definitions(&a, &b);
            match global.json {
                true => print_json(&diff),
                false => print_wrapped(render_definition_diff(&diff).trim_end(), 6),
            }
            diff.same
        }
    };
    Ok(if same { 0 } else { EXIT_DIFFERENT })
}

/// Whether the two are definitions: one is a file or a stored version, or both are names of workflows of the project. A name
/// beside anything else is that of a run.
fn is_definition(global: &Global, arguments: &DiffArgs) -> Result<bool, CommandError> {
    let names = [arguments.a.as_str(), &arguments.b];
    if names.iter().any(|name| Path::new(name).exists() || names_version(name)) {
        return Ok(true);
    }
    let config = global.load_config()?;
    let is_name = |name: &&str| find_named(&config, Path::new(name)).is_ok_and(|file| file.exists());
    Ok(names.iter().all(is_name))
}

/// Whether this is a version of a stored workflow, such as `NAME@2`.
fn names_version(name: &str) -> bool {
    VersionName::parse(name).is_some()
}

/// A definition, or the definition that a run has read.
async fn load_definition(global: &Global, name: &str) -> Result<ComparedDefinition, CommandError> {
    let config = global.load_config_for(Some(&ProjectTarget::Definition(name.into())))?;
    let source = match VersionName::parse(name).filter(|_| !Path::new(name).exists()) {
        Some(version) => {
            let app = global.open_existing()?;
            compile_version(&app.store, &app.config, SHARED_USER, &version)?
        }
        None => match find_named(&config, Path::new(name)) {
            Ok(file) => attach_tools(&config, None, Loader::new(&config).compile(&file), &file, false).await?,
            Err(error) => return find_definition_of_run(global, name).await.ok_or_else(|| error.into()),
        },
    };
    ComparedDefinition::of_source(&config, &source).ok_or_else(|| {
        CommandError::report_invalid_definition(&source, format!("{name} has errors, so it cannot be compared"))
    })
}

/// The definition of a run; `None` if there is no such run.
async fn find_definition_of_run(global: &Global, run: &str) -> Option<ComparedDefinition> {
    let opened = global.open_existing().ok()?.runs.open_run(run).await.ok()?;
    Some(ComparedDefinition::of_run(&opened))
}
