//! Reads definition files and compiles them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Diagnostic, line_column};
use flowloom_core::error::StepError;
use flowloom_core::plan::Format;
use flowloom_formats::{Compiled, Sources, compile};
use serde_json::json;

use super::bundle::described;
use super::sources::Surroundings;
use crate::config::{Agent, Config};
use crate::definitions::bundle::Offered;
use crate::tools::mcp::Servers;

/// A definition file with the result of compiling it.
pub struct Source {
    /// Its path.
    pub name: String,
    /// The bytes of the file.
    pub bytes: Vec<u8>,
    /// The result of compiling it.
    pub compiled: Compiled,
    /// All files that were read for it, by path.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Tools that MCP servers reported, as far as the definition needs them.
    pub offered: Offered,
}

impl Source {
    /// Whether it has an error and therefore cannot be run.
    pub fn is_refused(&self) -> bool {
        self.compiled.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// All diagnostics as JSON.
    pub fn problems(&self) -> Vec<serde_json::Value> {
        shown(self).collect()
    }

    /// The text of the file that a diagnostic refers to.
    pub fn text_of(&self, diagnostic: &Diagnostic) -> Cow<'_, str> {
        let bytes = self.files.get(&diagnostic.file).unwrap_or(&self.bytes);
        String::from_utf8_lossy(bytes)
    }
}

/// Options of reading a definition.
#[derive(Clone, Copy)]
pub struct Reading<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// The format; `None` to recognise it.
    pub format: Option<Format>,
    /// Whether dangling edges of a graph are ignored instead of rejected.
    pub lenient: bool,
}

impl Reading<'_> {
    /// The settings that compiling depends on, as configured.
    pub(crate) fn surroundings<'a>(&'a self, offered: &'a Offered) -> Surroundings<'a> {
        let config = self.config;
        Surroundings {
            functions: &config.functions,
            mcp: &config.mcp,
            declared: &offered.servers,
            flows: offered.flows.as_ref().map(described),
            tools: &config.tools,
            agent_folders: Agent::folders(&config.agents, &config.base()),
            is_lenient: self.lenient,
            source_bytes: config.limits.source_bytes,
        }
    }
}

/// Reads and compiles a file that is to be run. Queries the MCP servers whose tools it needs.
pub async fn load_to_run(path: &Path, reading: &Reading<'_>, servers: &Servers) -> Result<Source, StepError> {
    let source = load(path, reading);
    if source.compiled.asks.is_empty() {
        return Ok(source);
    }
    let offered = servers.offered(reading.config, &source.compiled.asks).await?;
    Ok(load_with(path, reading, offered))
}

/// Reads and compiles a file without starting anything.
pub fn load(path: &Path, reading: &Reading<'_>) -> Source {
    load_with(path, reading, Offered::default())
}

/// Reads and compiles a file with the given tools. An unreadable file becomes a diagnostic.
pub(crate) fn load_with(path: &Path, reading: &Reading<'_>, offered: Offered) -> Source {
    let format = reading.format;
    let limit = reading.config.limits.source_bytes;
    let path = &entry(path);
    let name = path.display().to_string();
    let mut sources = reading.surroundings(&offered).with_files(BTreeMap::new());
    match read(path, limit) {
        Ok(bytes) => {
            sources.files.insert(name.clone(), bytes.clone());
            let mut compiled = compile(&name, &sources, format);
            let beside = compiled.format.map(flowloom_formats::beside).unwrap_or_default();
            let has_more = read_beside(path, beside, limit, &mut sources.files);
            let has_agents = compiled.format == Some(flowloom_formats::graph::FORMAT) && read_agents(limit, &mut sources);
            if has_more || has_agents {
                compiled = compile(&name, &sources, format);
            }
            while add_needed(&compiled.needs, path, limit, &mut sources) {
                compiled = compile(&name, &sources, format);
            }
            Source { name, bytes, compiled, files: sources.files, offered }
        }
        Err(error) => {
            let span = flowloom_core::Span::default();
            let message = format!("{name} cannot be read: {error}");
            let diagnostic = Diagnostic::error(Code::Unreadable, &name, span, message);
            let compiled = Compiled { diagnostics: vec![diagnostic], format, ..Compiled::default() };
            Source { name, bytes: Vec::new(), compiled, files: BTreeMap::new(), offered }
        }
    }
}

/// The entry file of a folder: its table of workflows or its pipeline, if it has one.
fn entry(path: &Path) -> PathBuf {
    let inside = [flowloom_formats::graph::TABLE, flowloom_formats::pipeline::FILE].map(|name| path.join(name));
    inside.into_iter().find(|file| file.is_file()).unwrap_or_else(|| path.to_owned())
}

/// Reads the files that a format expects next to a definition; in a pattern, `*` matches one name. Returns whether any
/// were found.
fn read_beside(path: &Path, patterns: &[&str], limit: u64, files: &mut BTreeMap<String, Vec<u8>>) -> bool {
    let before = files.len();
    let folder = path.parent().unwrap_or(Path::new(""));
    for pattern in patterns {
        let mut places = vec![folder.to_owned()];
        for part in pattern.split('/') {
            places = places.iter().flat_map(|place| matching(place, part)).collect();
        }
        for file in places {
            // A missing file is reported by the definition that needs it.
            if let Ok(bytes) = read(&file, limit) {
                files.insert(file.display().to_string(), bytes);
            }
        }
    }
    files.len() > before
}

/// Reads the configured agent folders. Returns whether any files were found.
pub(crate) fn read_agents(limit: u64, sources: &mut Sources) -> bool {
    let before = sources.files.len();
    for folder in sources.agent_folders.values() {
        for name in ["systemPrompt.md", "jsonSchema.json"] {
            if let Ok(bytes) = read(&Path::new(folder).join(name), limit) {
                sources.files.insert(format!("{folder}/{name}"), bytes);
            }
        }
    }
    sources.files.len() > before
}

fn matching(folder: &Path, part: &str) -> Vec<PathBuf> {
    let Some((start, end)) = part.split_once('*') else { return vec![folder.join(part)] };
    let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let names =
        std::fs::read_dir(here).into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(start) && name.ends_with(end)).collect();
    names.sort();
    names.into_iter().map(|name| folder.join(name)).collect()
}

/// Reads the files that a definition names, if they are in its folder or below. Returns `false` if there were no new
/// files.
fn add_needed(needs: &[String], path: &Path, limit: u64, sources: &mut Sources) -> bool {
    let before = sources.files.len();
    let folder = path.canonicalize().ok().and_then(|path| Some(path.parent()?.to_owned()));
    for need in needs {
        // A symbolic link may point anywhere, so the resolved path is checked.
        let place = Path::new(need).canonicalize().ok();
        let Some(place) = place.filter(|place| folder.as_ref().is_some_and(|folder| place.starts_with(folder))) else {
            continue;
        };
        if let Ok(bytes) = read(&place, limit) {
            sources.files.insert(need.clone(), bytes);
        }
    }
    sources.files.len() > before
}

/// Reads a file; of a larger file only one byte more than the limit.
fn read(path: &Path, limit: u64) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The format of this name, if one is named.
pub fn format(name: Option<&str>) -> Result<Option<Format>, StepError> {
    let Some(name) = name else { return Ok(None) };
    match Format::parse(name) {
        Some(format) => Ok(Some(format)),
        None => {
            let names: Vec<_> = Format::ALL.iter().map(|format| format.name()).collect();
            let message = format!("there is no format {name:?}; it is one of {}", names.join(", "));
            Err(StepError::new(Code::UsageInvalid, message))
        }
    }
}

fn shown(source: &Source) -> impl Iterator<Item = serde_json::Value> {
    source.compiled.diagnostics.iter().map(|diagnostic| {
        let (line, column) = line_column(&source.text_of(diagnostic), diagnostic.span.start);
        json!({
            "code": diagnostic.code,
            "severity": diagnostic.severity,
            "file": diagnostic.file,
            "line": line,
            "column": column,
            "start": diagnostic.span.start,
            "length": diagnostic.span.length,
            "message": diagnostic.message,
            "help": diagnostic.help,
            "fix": diagnostic.fix.as_ref().map(|fix| fix.title.clone()),
        })
    })
}
