//! `flowloom check [FILE…]`: reports every problem and applies fixes. Never runs anything of a definition.

use std::path::{Path, PathBuf};

use flowloom_app::blocks::PythonSyntax;
use flowloom_app::config::Config;
use flowloom_app::definitions::find::{FoundFile, find_definitions, find_named};
use flowloom_app::definitions::source::{self, LoadedDefinition, Loader, resolve_entry};
use flowloom_app::listing::{count_noun, list_first};
use flowloom_core::diagnostic::apply_safe_fixes;
use flowloom_core::plan::Format;

use super::results::print_json;
use crate::cli::{CheckArgs, Global, ProjectConfigs, ReportStyle};
use crate::failure::{CommandError, CommandResult};
use crate::print::{show_name, show_path};
use crate::replace_file::replace_file;
use crate::terminal::diagnostics;

/// Maximum number of files without a workflow that are named.
const MAX_SHOWN_OTHERS: usize = 10;

/// Maximum number of rounds of fixes.
const MAX_FIX_ROUNDS: u32 = 10;

pub(crate) async fn check_definitions(global: &Global, arguments: CheckArgs) -> CommandResult {
    if global.json && !matches!(arguments.report, ReportStyle::Human | ReportStyle::Json) {
        return Err(CommandError::usage("--json and --report cannot be used together; remove one of them"));
    }
    let format = source::parse_format(arguments.format.as_deref())?;
    let configs = ProjectConfigs::new(global);
    let mut checker = Checker { arguments: &arguments, format, configs, checked: Vec::new() };
    let mut unusable = Vec::new();
    for path in &arguments.files {
        if let Err(error) = checker.check_path(path).await {
            unusable.push(error);
        }
    }
    let sources = checker.checked;
    let failed = join_errors(unusable);
    if let Some(error) = failed.as_ref().filter(|_| global.json) {
        let problems = sources.iter().flat_map(LoadedDefinition::problems).collect();
        return Err(CommandError { problems, ..error.clone() });
    }
    let style = if global.json { ReportStyle::Json } else { arguments.report };
    match style {
        ReportStyle::Human => print_report(&sources),
        ReportStyle::Json => print_json(&diagnostics::to_json(&sources)),
        ReportStyle::Github => print!("{}", diagnostics::to_github(&sources)),
        ReportStyle::Sarif => print_json(&diagnostics::to_sarif(&sources)),
    }
    if let Some(error) = failed {
        return Err(error);
    }
    let refused = sources.iter().any(LoadedDefinition::is_refused);
    Ok(if refused { 2 } else { 0 })
}

/// Checks what the paths of a command line name.
struct Checker<'a> {
    arguments: &'a CheckArgs,
    format: Option<Format>,
    configs: ProjectConfigs<'a>,
    checked: Vec<LoadedDefinition>,
}

impl Checker<'_> {
    /// Checks the definitions at a path, each with the configuration of the project around it. Fails if there is no such path or
    /// workflow, or if a project has an invalid configuration; the definitions of other projects are checked all the same.
    async fn check_path(&mut self, path: &Path) -> Result<(), CommandError> {
        let config = self.configs.load_around(path)?;
        let path = find_named(&config, path)?;
        let mut unusable = Vec::new();
        for source in load_definitions(&path, &self.build_loader(&config))?.definitions {
            match self.check_source(source, &config).await {
                Ok(source) => self.checked.push(source),
                Err(error) => unusable.push(error),
            }
        }
        join_errors(unusable).map_or(Ok(()), Err)
    }

    /// Checks a definition that was compiled with a configuration.
    async fn check_source(
        &mut self,
        source: LoadedDefinition,
        compiled_with: &Config,
    ) -> Result<LoadedDefinition, CommandError> {
        let path = PathBuf::from(source.name());
        let config = self.configs.load_around(&path)?;
        let loader = self.build_loader(&config);
        let is_own = config.project == compiled_with.project;
        let mut source = if is_own { source } else { loader.compile(&path) };
        if self.arguments.fix {
            source = fix_source(source, &loader)?;
        }
        source.add_check_warnings(&loader);
        source.add_python_errors(&PythonSyntax::with_system_python(&config)).await;
        Ok(source)
    }

    fn build_loader<'c>(&self, config: &'c Config) -> Loader<'c> {
        Loader { format: self.format, lenient: self.arguments.lenient, ..Loader::new(config) }
    }
}

/// One error with the messages of all; `None` if there are none.
fn join_errors(errors: Vec<CommandError>) -> Option<CommandError> {
    let mut messages: Vec<String> = errors.iter().map(|error| error.message.clone()).collect();
    // All definitions of a project fail for the same reason.
    messages.dedup();
    let first = errors.into_iter().next()?;
    Some(CommandError { message: messages.join("; "), ..first })
}

/// The definition at a path, or those of a folder.
#[derive(Default)]
pub(super) struct NamedDefinitions {
    pub(super) definitions: Vec<LoadedDefinition>,
    /// Texts of the folder that its definitions include.
    pub(super) included: Vec<LoadedDefinition>,
}

/// Loads the definition at a path, or all definitions of a folder.
pub(super) fn load_definitions(path: &Path, loader: &Loader<'_>) -> Result<NamedDefinitions, CommandError> {
    // A folder that is one definition is read as such.
    if !path.is_dir() || resolve_entry(path) != path {
        return Ok(NamedDefinitions { definitions: vec![loader.compile(path)], included: Vec::new() });
    }
    let found = find_definitions(path, loader);
    if !found.others.is_empty() {
        eprintln!("not workflows: {}", list_first(found.others.iter().map(|other| show_path(other)), MAX_SHOWN_OTHERS));
    }
    if found.definitions.is_empty() {
        return Err(CommandError::usage(format!("there are no workflows in {}", path.display())));
    }
    let take_sources = |files: Vec<FoundFile>| files.into_iter().map(|file| file.source).collect();
    Ok(NamedDefinitions { definitions: take_sources(found.definitions), included: take_sources(found.included) })
}

/// Applies the fixes of a definition to its file.
fn fix_source(mut source: LoadedDefinition, loader: &Loader<'_>) -> Result<LoadedDefinition, CommandError> {
    let path = Path::new(source.name()).to_owned();
    if !path.is_file() {
        return Ok(source);
    }
    // A fix can reveal further problems: a block whose type was misspelt was not read before.
    for _ in 0..MAX_FIX_ROUNDS {
        if !apply_source_fixes(&path, &source)? {
            break;
        }
        source = loader.compile(&path);
    }
    Ok(source)
}

/// Replaces the file by the fixed one. Returns `false` if there was nothing to fix.
fn apply_source_fixes(path: &Path, source: &LoadedDefinition) -> Result<bool, CommandError> {
    let Ok(text) = std::str::from_utf8(source.bytes()) else { return Ok(false) };
    // Problems of included files have places in those files.
    let mut problems = source.compiled.diagnostics.clone();
    problems.retain(|problem| problem.file == source.name());
    let (repaired, count) = apply_safe_fixes(text, &problems);
    if count == 0 {
        return Ok(false);
    }
    replace_file(path, &repaired)?;
    eprintln!("{}: {count} fixed", show_path(path));
    Ok(true)
}

fn print_report(sources: &[LoadedDefinition]) {
    for source in sources {
        diagnostics::print_diagnostics(source);
        let errors = source.compiled.diagnostics.iter().filter(|problem| problem.is_error()).count();
        let omitted = source.compiled.omitted;
        let warnings = source.compiled.diagnostics.len() - errors + omitted.warnings;
        let errors = errors + omitted.errors;
        let verdict = match (errors, warnings) {
            (0, 0) => "ok".to_owned(),
            _ => format!("{}, {}", count_noun(errors, "error"), count_noun(warnings, "warning")),
        };
        let format = source.compiled.format.map(|format| format!(" ({})", format.name())).unwrap_or_default();
        print_for_people!("{}{format}: {verdict}\n", show_name(source.name()));
    }
}
