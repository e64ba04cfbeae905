//! `flowloom init`: creates a project.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Component, Path, PathBuf};

use flowloom_app::config::declarations::{copy_declarations, list_declared_files, list_named_hosts};
use flowloom_app::config::project::{CONFIG_FILE, ProjectTarget};
use flowloom_app::definitions::find::find_definitions;
use flowloom_app::definitions::source::{LoadedDefinition, Loader};
use flowloom_app::folders::name_folder;
use flowloom_app::project_files;
use flowloom_app::wiring;
use flowloom_formats::{agent, graph, steps};
use serde_json::{Value, json};

use super::results::print_json;
use crate::cli::{Global, InitArgs};
use crate::failure::{CommandError, CommandResult};
use crate::hint::quote_argument;
use crate::terminal::diagnostics;

/// The configuration of a new project.
const CONFIG: &str = include_str!("../../data/init/flowloom.toml");

/// The setting in it that [`write_config`] replaces.
const ALLOW_NOTHING: &str = "allow = []";

/// The flow of a new project.
const FLOW: &str = include_str!("../../data/init/describe.json");

/// Name of the file with this flow.
const FLOW_FILE: &str = "describe.json";

/// Files that do not belong into git.
const GITIGNORE: &str = ".flowloom/\n.env\n";

/// The exit code if the definition of the new project cannot run yet.
const EXIT_REFUSED: u8 = 2;

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
            hosts: Vec::new(),
        },
    };
    let config = write_config(&start);
    let StartDefinition { first, mut files, hosts, .. } = start;
    files.push((PathBuf::from(CONFIG_FILE), config.into_bytes()));
    files.push((PathBuf::from(".gitignore"), GITIGNORE.as_bytes().to_vec()));
    // A definition that is in the folder already stays.
    files.retain(|(path, content)| std::fs::read(folder.join(path)).ok().as_ref() != Some(content));
    let existing: Vec<String> =
        files.iter().map(|(path, _)| folder.join(path)).filter(|path| path.exists()).map(display_path).collect();
    if !existing.is_empty() {
        let verb = if existing.len() == 1 { "exists" } else { "exist" };
        let message = format!("{} already {verb}; nothing was changed", existing.join(", "));
        return Err(CommandError::usage(message));
    }
    for (path, content) in &files {
        let path = folder.join(path);
        write_new_file(&path, content)
            .map_err(|error| CommandError::usage(format!("{} cannot be written: {error}", path.display())))?;
        if !global.json {
            println!("created {}", path.display());
        }
    }
    if files.is_empty() {
        eprintln!("{} already is a project with these files; nothing was changed", folder.display());
    }
    if let Some(outer) = find_outer_project(folder) {
        eprintln!("note: it is a project of its own, inside of {}", outer.display());
    }
    if !hosts.is_empty() {
        eprintln!("\nas in its own project, it may reach {} (egress.allow in {CONFIG_FILE})", hosts.join(", "));
    }
    let problems = report_problems(global, folder, &first)?;
    let exit = if problems.is_empty() { 0 } else { EXIT_REFUSED };
    if global.json {
        let created: Vec<String> = files.iter().map(|(path, _)| display_path(folder.join(path))).collect();
        print_json(&json!({"folder": folder, "workflow": first, "created": created, "problems": problems}));
        return Ok(exit);
    }
    print_next_steps(global, folder, &first, problems.is_empty())?;
    Ok(exit)
}

/// The project around the folder of a new one.
fn find_outer_project(folder: &Path) -> Option<PathBuf> {
    let folder = folder.canonicalize().ok()?;
    folder.ancestors().skip(1).find(|outer| outer.join(CONFIG_FILE).is_file()).map(Path::to_owned)
}

/// The definition that a project starts with.
struct StartDefinition {
    /// Its path in the folder.
    first: PathBuf,
    files: Vec<NewFile>,
    /// Configuration that it needs, as TOML.
    declarations: String,
    /// The addresses in its texts that its own project lets workflows reach.
    hosts: Vec<String>,
}

/// The configuration of a new project with this definition.
fn write_config(start: &StartDefinition) -> String {
    let quoted: Vec<String> = start.hosts.iter().map(|host| format!("{host:?}")).collect();
    let config = CONFIG.replacen(ALLOW_NOTHING, &format!("allow = [{}]", quoted.join(", ")), 1);
    if start.declarations.is_empty() { config } else { format!("{config}\n{}", start.declarations) }
}

/// The files of a definition, by their paths in its folder, and its declarations in its own project.
fn read_definition(global: &Global, from: &Path) -> Result<StartDefinition, CommandError> {
    let config = global.load_config_for(Some(&ProjectTarget::Definition(from.to_owned())))?;
    let loader = Loader::new(&config);
    let source = loader.compile(from);
    if source.bytes().is_empty() {
        return Err(CommandError::report_invalid_definition(&source, format!("{} cannot be copied", from.display())));
    }
    if steps::is_script(&String::from_utf8_lossy(source.bytes())) {
        let (file, result) = (from.display(), from.with_extension("json"));
        let convert = format!("flowloom convert {} --to steps --out {}", quote_argument(from), quote_argument(&result));
        return Err(CommandError::usage(format!(
            "{file} is JavaScript, which commands for a folder skip; write it as JSON first: {convert}"
        )));
    }
    let entry = PathBuf::from(source.name());
    let base = entry.parent().unwrap_or(Path::new("")).to_owned();
    let below = |path: &Path| path.strip_prefix(&base).unwrap_or(path).to_owned();
    // Files of agents that the configuration names are elsewhere.
    let is_inside = |path: &Path| path.components().all(|part| matches!(part, Component::Normal(_)));
    let files = source.files().iter().map(|(path, bytes)| (below(Path::new(path)), bytes.clone()));
    let texts: Vec<&str> = source.files().values().filter_map(|bytes| std::str::from_utf8(bytes).ok()).collect();
    let has_tools = source.compiled.format == Some(graph::FORMAT);
    let own_file = find_own_config(&entry).or_else(|| config.file.clone());
    let own = own_file.as_ref().and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
    let mut files: BTreeMap<PathBuf, Vec<u8>> = files.filter(|(path, _)| is_inside(path)).collect();
    let mut texts: Vec<String> = texts.into_iter().map(str::to_owned).collect();
    if source.compiled.format == Some(agent::FORMAT) {
        for (path, bytes) in list_workflows_of_agent(&loader, &base, &source) {
            texts.extend(String::from_utf8(bytes.clone()));
            files.entry(below(&path)).or_insert(bytes);
        }
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let declarations = copy_declarations(&own, &texts, has_tools);
    let named_in: Vec<&str> = texts.iter().copied().chain([declarations.as_str()]).collect();
    let hosts = list_named_hosts(&own, &named_in);
    let root = own_file.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
    for name in list_declared_files(&declarations) {
        if let (true, Ok(bytes)) = (is_inside(Path::new(&name)), std::fs::read(root.join(&name))) {
            files.entry(PathBuf::from(name)).or_insert(bytes);
        }
    }
    let files = files.into_iter().filter(|(path, _)| is_inside(path)).collect();
    Ok(StartDefinition { first: below(&entry), files, declarations, hosts })
}

/// The configuration of the project that a definition comes from, whatever project the current folder is in.
fn find_own_config(entry: &Path) -> Option<PathBuf> {
    let entry = std::path::absolute(entry).ok()?;
    entry.ancestors().skip(1).map(|folder| folder.join(CONFIG_FILE)).find(|file| file.is_file())
}

/// The files of the workflows in the folder of an agent that it can call.
fn list_workflows_of_agent(loader: &Loader<'_>, base: &Path, agent: &LoadedDefinition) -> Vec<NewFile> {
    let folder = name_folder(base);
    let text = String::from_utf8_lossy(agent.bytes());
    let names_all = !text.contains("\"tools\"");
    let is_named = |id: &str| names_all || text.contains(id) || text.contains(&id.replace(['-', '.'], "_"));
    let found = find_definitions(folder, loader).definitions;
    let others = found.iter().filter(|file| file.source.name() != agent.name() && is_named(&file.id));
    let files = others.flat_map(|file| file.source.files());
    let plain = |path: &String| PathBuf::from(path.strip_prefix("./").unwrap_or(path));
    files.map(|(path, bytes)| (plain(path), bytes.clone())).collect()
}

/// Reports what the definition lacks in its new project, such as a function that must be declared. Returns the problems of a
/// definition that cannot run.
fn report_problems(global: &Global, folder: &Path, first: &Path) -> Result<Vec<Value>, CommandError> {
    let path = folder.join(first);
    let config = global.load_config_for(Some(&ProjectTarget::Definition(path.clone())))?;
    let source = Loader::new(&config).compile(&path);
    if source.is_refused() {
        eprintln!();
        diagnostics::print_diagnostics(&source);
        eprintln!("{} needs these changes before it runs", path.display());
        return Ok(source.problems());
    }
    Ok(Vec::new())
}

fn write_new_file(path: &Path, content: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        project_files::create_folder(folder)?;
    }
    project_files::create_file(path)?.write_all(content)
}

fn print_next_steps(global: &Global, folder: &Path, first: &Path, can_run: bool) -> Result<(), CommandError> {
    let config = global.load_config()?;
    eprintln!("\nNext:");
    if folder != Path::new(".") {
        eprintln!("  cd {}", quote_argument(folder));
    }
    if config.default_model.value.is_none() && wiring::build_default_models(&config).list_local_models().is_empty() {
        eprintln!("  flowloom models pull          # the small model, once; or set default_model in {CONFIG_FILE}");
    }
    if !can_run {
        eprintln!("  flowloom check {}", quote_argument(first));
    }
    eprintln!("  flowloom run {}", quote_argument(first));
    eprintln!("  flowloom show last");
    Ok(())
}

fn display_path(path: PathBuf) -> String {
    path.display().to_string()
}
