//! Reads definition files and compiles them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Diagnostic, LineTable, Severity, Span};
use flowloom_core::plan::Format;
use flowloom_formats::markdown::{FLOWS_FOLDER, PROMPTS_FOLDER};
use flowloom_formats::{Compiled, OmittedProblems, Sources, StopFlag, blank_comments, compile};
use serde_json::json;

use super::agents_above::{list_folders_above, read_agents_above};
use super::bundle::to_compiler_input;
use super::error::DefinitionError;
use super::folder::leaves_folder;
use super::missing_file::describe_read_error;
use super::reader::{FileReader, OpenFiles, read_files_below, resolve_folder};
use super::secret_check::check_secrets;
use super::sources::SourceSettings;
use crate::config::{AgentSettings, Config};
use crate::definitions::bundle::AvailableTools;
use crate::error::AppError;
use crate::folders::name_folder;
use crate::tools::mcp::McpServers;

/// The path that means stdin.
pub const STDIN_PATH: &str = "-";

/// A definition with the result of compiling it.
pub struct LoadedDefinition {
    loaded: Loaded,
    /// The result of compiling it.
    pub compiled: Compiled,
}

impl LoadedDefinition {
    /// A definition that was not read from a file: `files` by path, among them the one called `name`.
    pub(crate) fn of_files(
        name: &str,
        files: BTreeMap<String, Vec<u8>>,
        compiled: Compiled,
        available_tools: AvailableTools,
    ) -> LoadedDefinition {
        let (path, name) = (PathBuf::from(name), name.to_owned());
        LoadedDefinition {
            loaded: Loaded { path, name, unreadable: None, files, has_related_files: true, available_tools },
            compiled,
        }
    }

    /// Its path.
    pub fn name(&self) -> &str {
        &self.loaded.name
    }

    /// The bytes of the definition itself; empty if it cannot be read.
    pub fn bytes(&self) -> &[u8] {
        self.loaded.files.get(&self.loaded.name).map_or(&[], Vec::as_slice)
    }

    /// All files that were read for it, by path.
    pub fn files(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.loaded.files
    }

    /// The tools that were available to it.
    pub fn available_tools(&self) -> &AvailableTools {
        &self.loaded.available_tools
    }

    /// The same files, to be compiled with other tools.
    pub(crate) fn with_tools(self, available_tools: AvailableTools) -> Loaded {
        Loaded { available_tools, ..self.loaded }
    }

    /// Adds warnings about the secrets that it names. `tenant` is the user whose definition it is; `None` if it is the
    /// operator's own.
    pub fn add_secret_warnings(&mut self, config: &Config, tenant: Option<&str>) {
        let warnings = check_secrets(config, self, tenant);
        self.compiled.diagnostics.extend(warnings);
    }

    /// Whether it has an error and therefore cannot be run.
    pub fn is_refused(&self) -> bool {
        self.compiled.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// The problems as JSON. If there are more than are reported one by one, the last one counts the others.
    pub fn problems(&self) -> Vec<serde_json::Value> {
        let mut texts = SourceTexts::new(self);
        let rest = self.rest_problem();
        let all = self.compiled.diagnostics.iter().chain(&rest);
        all.map(|diagnostic| diagnostic_to_json(diagnostic, texts.find_text(diagnostic))).collect()
    }

    /// A problem that counts the problems that are not reported one by one; `None` if there are none.
    pub fn rest_problem(&self) -> Option<Diagnostic> {
        let OmittedProblems { errors, warnings } = self.compiled.omitted;
        let message = match (errors, warnings) {
            (0, 0) => return None,
            (_, 0) => format!("and {errors} more errors"),
            (0, _) => format!("and {warnings} more warnings"),
            (_, _) => format!("and {} more problems: {errors} errors, {warnings} warnings", errors + warnings),
        };
        let severity = if errors > 0 { Severity::Error } else { Severity::Warning };
        let rest = Diagnostic::new_error(Code::MoreProblems, self.name(), Span::default(), message);
        Some(Diagnostic { severity, ..rest.with_help("solve the problems that are shown, and check again") })
    }
}

/// Reads and compiles definitions under one configuration.
///
/// # Examples
///
/// ```
/// use flowloom_app::config::Config;
/// use flowloom_app::definitions::source::Loader;
///
/// fn can_run(config: &Config, text: &str) -> bool {
///     let files = [("greet.mdx".to_owned(), text.as_bytes().to_vec())];
///     !Loader::new(config).compile_files("greet.mdx", files.into()).is_refused()
/// }
/// ```
#[derive(Clone, Copy)]
pub struct Loader<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// The format; `None` to recognise it.
    pub format: Option<Format>,
    /// Whether dangling edges of a graph are ignored instead of rejected.
    pub lenient: bool,
    /// Stops compiling; `None` to let it take its time.
    pub stop: Option<&'a StopFlag>,
    /// The files that are open in an editor.
    pub open_files: Option<&'a OpenFiles>,
    /// The path of the text on stdin; `None` to recognise whether it is JSON.
    pub stdin_path: Option<&'a Path>,
}

impl<'a> Loader<'a> {
    /// A loader that recognises formats and reports dangling edges.
    pub fn new(config: &'a Config) -> Loader<'a> {
        Loader { config, format: None, lenient: false, stop: None, open_files: None, stdin_path: None }
    }
}

impl Loader<'_> {
    /// Reads files up to the configured limit.
    pub(crate) fn file_reader(&self) -> FileReader<'_> {
        FileReader { limit_bytes: self.config.limits.source_bytes, open_files: self.open_files }
    }

    /// The settings that compiling depends on, as configured.
    pub(crate) fn source_settings<'a>(&'a self, available_tools: &'a AvailableTools) -> SourceSettings<'a> {
        let config = self.config;
        SourceSettings {
            functions: &config.functions,
            mcp: &config.mcp,
            declared: &available_tools.servers,
            flows: available_tools.flows.as_ref().map(to_compiler_input),
            tools: &config.tools,
            agent_folders: AgentSettings::resolve_folders(&config.agents, &config.base_folder()),
            is_lenient: self.lenient,
            source_bytes: config.limits.source_bytes,
            stop: self.stop.cloned().unwrap_or_default(),
        }
    }

    /// Reads the definition at `path`: a file, a folder that holds one, or `-` for stdin. Further files are read when
    /// it is compiled.
    pub fn load_definition(&self, path: &Path) -> Loaded {
        let (path, main) = match path.as_os_str() == STDIN_PATH {
            true => read_stdin(self.config.limits.source_bytes, self.stdin_path),
            false => {
                let path = resolve_entry(path);
                let main = self.file_reader().read_file(&path);
                (path, main)
            }
        };
        let name = path.display().to_string();
        let files = main.as_ref().ok().map(|bytes| (name.clone(), bytes.clone()));
        let unreadable = main.err().map(|error| describe_read_error(&path, &name, &error));
        Loaded {
            path,
            name,
            unreadable,
            files: files.into_iter().collect(),
            has_related_files: false,
            available_tools: AvailableTools::default(),
        }
    }

    /// Reads and compiles a file without starting anything.
    pub fn compile(&self, path: &Path) -> LoadedDefinition {
        self.load_definition(path).compile(self)
    }

    /// Compiles the definition called `name` among `files`. Nothing is read.
    pub fn compile_files(&self, name: &str, files: BTreeMap<String, Vec<u8>>) -> LoadedDefinition {
        let available_tools = AvailableTools::default();
        let sources = self.source_settings(&available_tools).with_files(files);
        let compiled = compile(name, &sources, self.format);
        LoadedDefinition::of_files(name, sources.files, compiled, available_tools)
    }

    /// Reads and compiles a file that is to be run. Queries the MCP servers whose tools it needs. Fails if one of these
    /// servers cannot be started, or does not have a tool that the configuration names; problems of the file are
    /// diagnostics.
    pub async fn compile_to_run(&self, path: &Path, servers: &McpServers) -> Result<LoadedDefinition, AppError> {
        let source = self.compile(path);
        if source.compiled.required_servers.is_empty() {
            return Ok(source);
        }
        let available_tools = servers.query_available(self.config, &source.compiled.required_servers).await?;
        Ok(source.with_tools(available_tools).compile(self))
    }
}

/// The files of a definition, each of which is read once, and the tools that are available to it.
#[derive(Clone)]
pub struct Loaded {
    path: PathBuf,
    name: String,
    /// Why the definition itself cannot be read.
    unreadable: Option<String>,
    /// Everything that was read, by path.
    files: BTreeMap<String, Vec<u8>>,
    /// Whether the files were read that a format looks for next to a definition.
    has_related_files: bool,
    available_tools: AvailableTools,
}

impl Loaded {
    /// Compiles it, and reads the further files that it turns out to need. An unreadable file becomes a diagnostic like
    /// any other.
    pub fn compile(mut self, loader: &Loader<'_>) -> LoadedDefinition {
        let (format, reader) = (loader.format, loader.file_reader());
        if let Some(message) = &self.unreadable {
            let span = Span::default();
            let diagnostic = Diagnostic::new_error(Code::Unreadable, &self.name, span, message.clone());
            let compiled = Compiled { diagnostics: vec![diagnostic], format, ..Compiled::default() };
            return LoadedDefinition { loaded: self, compiled };
        }
        let mut sources = loader.source_settings(&self.available_tools).with_files(std::mem::take(&mut self.files));
        let mut compiled = compile(&self.name, &sources, format);
        let patterns = compiled.format.map(flowloom_formats::related_file_patterns).unwrap_or_default();
        let is_graph = compiled.format == Some(flowloom_formats::graph::FORMAT);
        let mut above = Vec::new();
        if !self.has_related_files {
            let has_more = read_adjacent_files(&self.path, patterns, reader, &mut sources.files);
            let has_agents = is_graph && read_agents(reader, &mut sources);
            self.has_related_files = true;
            if has_more || has_agents {
                compiled = compile(&self.name, &sources, format);
            }
            if is_graph {
                above = list_folders_above(&self.path, &loader.config.project.root);
            }
        }
        let has_missing = !compiled.missing_files.is_empty();
        let prompts = has_missing.then(|| find_prompts(&self.path, &loader.config.base_folder())).flatten();
        let prompts = prompts.as_deref();
        let mut above = above.into_iter();
        loop {
            let has_read = read_missing_files(&compiled.missing_files, &self.path, prompts, reader, &mut sources)
                || read_agents_above(&compiled.missing_files, &mut above, patterns, reader, &mut sources.files);
            if !has_read {
                break;
            }
            compiled = compile(&self.name, &sources, format);
        }
        self.files = sources.files;
        LoadedDefinition { loaded: self, compiled }
    }
}

/// Reads a definition from stdin. Its first character distinguishes JSON from Markdown.
fn read_stdin(limit: u64, path: Option<&Path>) -> (PathBuf, std::io::Result<Vec<u8>>) {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(limit.saturating_add(1)).read_to_end(&mut bytes);
    let path = path.map_or_else(|| PathBuf::from(name_stdin(&bytes)), Path::to_owned);
    (path, read.map(|_| bytes))
}

/// The name of a text that has none: JSON, JSON with comments, or Markdown.
fn name_stdin(bytes: &[u8]) -> &'static str {
    let text = String::from_utf8_lossy(bytes);
    let plain = blank_comments(&text);
    let has_comment = text.bytes().zip(plain.bytes()).any(|(written, left)| written == b'/' && left != b'/');
    match (plain.trim_start().starts_with(['{', '[']), has_comment) {
        (true, false) => "stdin.json",
        (true, true) => "stdin.jsonc",
        (false, _) => "stdin.mdx",
    }
}

/// The entry file of a folder: its table of workflows or its pipeline, if it has one.
pub fn resolve_entry(path: &Path) -> PathBuf {
    let inside = [flowloom_formats::graph::WORKFLOW_TABLE_FILE, flowloom_formats::pipeline::PIPELINE_FILE]
        .map(|name| path.join(name));
    // A link that leaves the folder is no file of it, as in a list of files.
    inside.into_iter().find(|file| file.is_file() && !leaves_folder(file, path)).unwrap_or_else(|| path.to_owned())
}

/// Reads the files that a format expects next to a definition; in a pattern, `*` matches one name. Returns whether any
/// were found.
fn read_adjacent_files(
    path: &Path,
    patterns: &[&str],
    reader: FileReader<'_>,
    files: &mut BTreeMap<String, Vec<u8>>,
) -> bool {
    let folder = path.parent().unwrap_or(Path::new(""));
    let Some(inside) = resolve_folder(path) else { return false };
    read_files_below(folder, &inside, patterns, reader, files)
}

/// Reads the configured agent folders. Returns whether any files were found.
pub(crate) fn read_agents(reader: FileReader<'_>, sources: &mut Sources) -> bool {
    let before = sources.files.len();
    for folder in sources.agent_folders.values() {
        for name in ["systemPrompt.md", "jsonSchema.json"] {
            if let Ok(bytes) = reader.read_file(&Path::new(folder).join(name)) {
                sources.files.insert(format!("{folder}/{name}"), bytes);
            }
        }
    }
    sources.files.len() > before
}

/// The folder of prompts next to the folder of flows in which a definition is, without symbolic links; `None` if it is not
/// in the project.
fn find_prompts(path: &Path, project: &Path) -> Option<PathBuf> {
    let project = name_folder(project).canonicalize().ok()?;
    let flows = resolve_folder(path).filter(|folder| folder.ends_with(FLOWS_FOLDER))?;
    let prompts = flows.parent()?.join(PROMPTS_FOLDER).canonicalize().ok()?;
    prompts.starts_with(&project).then_some(prompts)
}

/// Reads the files that a definition names, if they are in its folder or below, or in the folder of prompts. Returns
/// `false` if there were no new files.
fn read_missing_files(
    needs: &[String],
    path: &Path,
    prompts: Option<&Path>,
    reader: FileReader<'_>,
    sources: &mut Sources,
) -> bool {
    let before = sources.files.len();
    let Some(inside) = resolve_folder(path) else { return false };
    for need in needs {
        if sources.files.contains_key(need) {
            continue;
        }
        let need_path = Path::new(need);
        let read = reader.read_inside(&inside, need_path);
        if let Some(bytes) = read.or_else(|| reader.read_inside(prompts?, need_path)) {
            sources.files.insert(need.clone(), bytes);
        }
    }
    sources.files.len() > before
}

/// The format of this name, if one is named. Fails if there is no format with this name.
pub fn parse_format(name: Option<&str>) -> Result<Option<Format>, DefinitionError> {
    let Some(name) = name else { return Ok(None) };
    match flowloom_formats::find_format(name) {
        Some(format) => Ok(Some(format)),
        None => {
            let known = flowloom_formats::formats().map(|format| format.to_string()).collect();
            Err(DefinitionError::UnknownFormat { name: name.to_owned(), known })
        }
    }
}

/// The files of a definition as texts, each of which is converted and indexed once.
pub struct SourceTexts<'a> {
    source: &'a LoadedDefinition,
    texts: BTreeMap<&'a str, SourceText<'a>>,
}

/// The text of a file.
#[derive(Debug)]
pub struct SourceText<'a> {
    /// The text.
    pub text: Cow<'a, str>,
    /// Its lines.
    pub lines: LineTable,
}

impl<'a> SourceTexts<'a> {
    /// The files of a definition.
    pub fn new(source: &'a LoadedDefinition) -> SourceTexts<'a> {
        SourceTexts { source, texts: BTreeMap::new() }
    }

    /// The text of the file that a diagnostic refers to.
    pub fn find_text(&mut self, diagnostic: &Diagnostic) -> &SourceText<'a> {
        let named = self.source.files().get_key_value(&diagnostic.file);
        let (name, bytes) = named.map_or((self.source.name(), self.source.bytes()), |(name, bytes)| (name, bytes));
        self.texts.entry(name).or_insert_with(|| {
            let text = String::from_utf8_lossy(bytes);
            SourceText { lines: LineTable::new(&text), text }
        })
    }
}

/// A problem of a whole file as JSON.
pub(super) fn problem_of_whole_file(diagnostic: &Diagnostic) -> serde_json::Value {
    diagnostic_to_json(diagnostic, &SourceText { text: Cow::Borrowed(""), lines: LineTable::new("") })
}

fn diagnostic_to_json(diagnostic: &Diagnostic, source: &SourceText<'_>) -> serde_json::Value {
    let position = source.lines.find_position(&source.text, diagnostic.span.start);
    json!({
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "file": diagnostic.file,
        "line": position.line,
        "column": position.column,
        "start": diagnostic.span.start,
        "length": diagnostic.span.length,
        "message": diagnostic.message,
        "help": diagnostic.help,
        "fix": diagnostic.fix.as_ref().map(|fix| fix.title.clone()),
        "applicability": diagnostic.fix.as_ref().map(|fix| fix.applicability),
    })
}
