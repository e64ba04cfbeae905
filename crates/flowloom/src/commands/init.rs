//! `flowloom init`: creates a project.

use std::io::Write as _;
use std::path::{Component, Path, PathBuf};

use flowloom_app::config::declarations::copy_declarations;
use flowloom_app::config::project::{CONFIG_FILE, ProjectTarget};
use flowloom_app::definitions::source::Loader;
use flowloom_app::wiring;
use flowloom_formats::graph;

use crate::cli::{Global, InitArgs};
use crate::failure::{CommandError, CommandResult};
use crate::terminal::diagnostics;

/// The configuration of a new project.
const CONFIG: &str = include_str!("../../data/init/flowloom.toml");

/// The flow of a new project.
const FLOW: &str = include_str!("../../data/init/describe.json");

/// Name of the file with this flow.
const FLOW_FILE: &str = "describe.json";

/// Files that do not belong into git.
const GITIGNORE: &str = ".flowloom/\n.env\n";

/// A file of the new project: its path in the folder, and its content.
type NewFile = (PathBuf, Vec<u8>);

pub(crate) fn create_project(global: &Global, arguments: &InitArgs) -> CommandResult {
    let folder = &arguments.folder;
    let start = match &arguments.from {
        Some(from) => read_definition(global, from)?,
        None => StartDefinition {
            first: PathBuf::from(FLOW_FILE),
            files: vec![(PathBuf::from(FLOW_FILE), FLOW.as_bytes().to_vec())],
            declarations: String::new(),
        },
    };
    let StartDefinition { first, mut files, declarations } = start;
    let config = if declarations.is_empty() { CONFIG.to_owned() } else { format!("{CONFIG}\n{declarations}") };
    files.push((PathBuf::from(CONFIG_FILE), config.into_bytes()));
    files.push((PathBuf::from(".gitignore"), GITIGNORE.as_bytes().to_vec()));
    // A definition that is in the folder already stays.
    files.retain(|(path, content)| std::fs::read(folder.join(path)).ok().as_ref() != Some(content));
    let existing: Vec<String> =
        files.iter().map(|(path, _)| folder.join(path)).filter(|path| path.exists()).map(display_path).collect();
    if !existing.is_empty() {
        let message = format!("{} already exist; nothing was changed", existing.join(", "));
        return Err(CommandError::usage(message));
    }
    for (path, content) in &files {
        let path = folder.join(path);
        write_new_file(&path, content)
            .map_err(|error| CommandError::usage(format!("{} cannot be written: {error}", path.display())))?;
        println!("created {}", path.display());
    }
    report_problems(global, folder, &first)?;
    print_next_steps(global, folder, &first)
}

/// The definition that a project starts with.
struct StartDefinition {
    /// Its path in the folder.
    first: PathBuf,
    files: Vec<NewFile>,
    /// What it needs in the configuration, as TOML.
    declarations: String,
}

/// The files of a definition, by their paths in its folder, and its declarations in its own project.
fn read_definition(global: &Global, from: &Path) -> Result<StartDefinition, CommandError> {
    let config = global.load_config_for(Some(&ProjectTarget::Definition(from.to_owned())))?;
    let source = Loader::new(&config).compile(from);
    if source.bytes().is_empty() {
        diagnostics::print_diagnostics(&source);
        return Err(CommandError::usage(format!("{} cannot be copied", from.display())));
    }
    let entry = PathBuf::from(source.name());
    let base = entry.parent().unwrap_or(Path::new("")).to_owned();
    let below = |path: &Path| path.strip_prefix(&base).unwrap_or(path).to_owned();
    // Files of agents that the configuration names are elsewhere.
    let is_inside = |path: &Path| path.components().all(|part| matches!(part, Component::Normal(_)));
    let files = source.files().iter().map(|(path, bytes)| (below(Path::new(path)), bytes.clone()));
    let texts: Vec<&str> = source.files().values().filter_map(|bytes| std::str::from_utf8(bytes).ok()).collect();
    let has_tools = source.compiled.format == Some(graph::FORMAT);
    let own = config.file.as_ref().and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
    let declarations = copy_declarations(&own, &texts, has_tools);
    Ok(StartDefinition {
        first: below(&entry),
        files: files.filter(|(path, _)| is_inside(path)).collect(),
        declarations,
    })
}

/// Reports what the definition lacks in its new project, such as a function that must be declared.
fn report_problems(global: &Global, folder: &Path, first: &Path) -> Result<(), CommandError> {
    let path = folder.join(first);
    let config = global.load_config_for(Some(&ProjectTarget::Definition(path.clone())))?;
    let source = Loader::new(&config).compile(&path);
    if source.is_refused() {
        eprintln!();
        diagnostics::print_diagnostics(&source);
        eprintln!("{} needs these changes before it runs", path.display());
    }
    Ok(())
}

fn write_new_file(path: &Path, content: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::File::create_new(path)?.write_all(content)
}

fn print_next_steps(global: &Global, folder: &Path, first: &Path) -> CommandResult {
    let config = global.load_config()?;
    eprintln!("\nNext:");
    if folder != Path::new(".") {
        eprintln!("  cd {}", folder.display());
    }
    if config.default_model.value.is_none() && wiring::build_default_models(&config).list_local_models().is_empty() {
        eprintln!("  flowloom models pull          # the small model, once; or set default_model in {CONFIG_FILE}");
    }
    eprintln!("  flowloom run {}", first.display());
    eprintln!("  flowloom show last");
    Ok(0)
}

fn display_path(path: PathBuf) -> String {
    path.display().to_string()
}
