//! Reads definition files, and shows their problems.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use flowloom_core::diagnostic::{Diagnostic, Severity, line_column};
use flowloom_core::error::StepError;
use flowloom_core::plan::Format;
use flowloom_formats::{Compiled, Sources, compile};
use miette::{GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource};
use serde_json::json;

use crate::config::{Agent, Config, Function};
use crate::failure::Failure;
use crate::flows;
use crate::mcp::{self, Offered, Servers};

/// A definition file with what compiling it said.
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) compiled: Compiled,
    /// Everything that was read for it, by path.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// What MCP servers said they have, as far as it matters here.
    pub(crate) offered: Offered,
}

impl Source {
    /// Whether it has an error, so that it cannot be run.
    pub(crate) fn is_refused(&self) -> bool {
        self.compiled.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// Everything that is wrong with it, as JSON.
    pub(crate) fn problems(&self) -> Vec<serde_json::Value> {
        shown(self).collect()
    }

    /// The text that a problem is about.
    fn text_of(&self, diagnostic: &Diagnostic) -> Cow<'_, str> {
        let bytes = self.files.get(&diagnostic.file).unwrap_or(&self.bytes);
        String::from_utf8_lossy(bytes)
    }
}

/// How a file is to be read.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub(crate) config: &'a Config,
    pub(crate) format: Option<Format>,
    pub(crate) lenient: bool,
}

/// Reads and compiles a file that is to be run: MCP servers whose tools it offers to models are asked for them.
pub(crate) async fn load_to_run(path: &Path, reading: &Reading<'_>, servers: &Servers) -> Result<Source, StepError> {
    let source = load(path, reading);
    if source.compiled.asks.is_empty() {
        return Ok(source);
    }
    let offered = servers.offered(reading.config, &source.compiled.asks).await?;
    Ok(load_with(path, reading, offered))
}

/// Reads and compiles a file. Nothing is started for it.
pub(crate) fn load(path: &Path, reading: &Reading<'_>) -> Source {
    load_with(path, reading, Offered::default())
}

/// Reads and compiles a file. A file that cannot be read is a diagnostic like any other.
pub(crate) fn load_with(path: &Path, reading: &Reading<'_>, offered: Offered) -> Source {
    let format = reading.format;
    let limit = reading.config.limits.source_bytes;
    let path = &entry(path);
    let name = path.display().to_string();
    let mut sources = sources(reading, &offered);
    match read(path, limit) {
        Ok(bytes) => {
            sources.files.insert(name.clone(), bytes.clone());
            let mut compiled = compile(&name, &sources, format);
            let beside = compiled.format.map(flowloom_formats::beside).unwrap_or_default();
            let has_more = read_beside(path, beside, limit, &mut sources.files);
            let has_agents =
                compiled.format == Some(flowloom_formats::graph::FORMAT) && read_agents(limit, &mut sources);
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
            let diagnostic = Diagnostic::error(flowloom_core::Code::Unreadable, &name, span, message);
            let compiled = Compiled { diagnostics: vec![diagnostic], format, ..Compiled::default() };
            Source { name, bytes: Vec::new(), compiled, files: BTreeMap::new(), offered }
        }
    }
}

/// What compiling reads beside files.
pub(crate) fn sources(reading: &Reading<'_>, offered: &Offered) -> Sources {
    let config = reading.config;
    let functions: Vec<String> = config.functions.keys().cloned().collect();
    Sources {
        functions: functions.clone(),
        configured: functions,
        declared: Function::declared(&config.functions),
        helpers: Function::helpers(&config.functions),
        servers: mcp::described(&config.mcp, &offered.servers),
        flows: offered.flows.as_ref().map(flows::described),
        is_lenient: reading.lenient,
        tools: config.tools.host(),
        agent_folders: Agent::folders(&config.agents, &config.base()),
        source_bytes: config.limits.source_bytes,
        ..Sources::default()
    }
}

/// The file that is meant: of a folder its table of workflows or its pipeline, where it has one.
fn entry(path: &Path) -> PathBuf {
    let inside = [flowloom_formats::graph::TABLE, flowloom_formats::pipeline::FILE].map(|name| path.join(name));
    inside.into_iter().find(|file| file.is_file()).unwrap_or_else(|| path.to_owned())
}

/// Reads the files that a format looks for beside a definition; whether there are any. In a pattern `*` is one name.
fn read_beside(path: &Path, patterns: &[&str], limit: u64, files: &mut BTreeMap<String, Vec<u8>>) -> bool {
    let before = files.len();
    let folder = path.parent().unwrap_or(Path::new(""));
    for pattern in patterns {
        let mut places = vec![folder.to_owned()];
        for part in pattern.split('/') {
            places = places.iter().flat_map(|place| matching(place, part)).collect();
        }
        for file in places {
            // A file that cannot be read is missed by the definition that needs it, which says so.
            if let Ok(bytes) = read(&file, limit) {
                files.insert(file.display().to_string(), bytes);
            }
        }
    }
    files.len() > before
}

/// Reads the folders of agents that the configuration names; whether there are any.
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

/// Reads the files that a definition names, where they lie in its folder or below it; `false` if there is nothing new.
fn add_needed(needs: &[String], path: &Path, limit: u64, sources: &mut Sources) -> bool {
    let before = sources.files.len();
    let folder = path.canonicalize().ok().and_then(|path| Some(path.parent()?.to_owned()));
    for need in needs {
        // A link may lead anywhere, so it is the place itself that is looked at.
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

/// The file's bytes; of a file beyond the limit only enough to see that it is.
fn read(path: &Path, limit: u64) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The format named on the command line.
pub(crate) fn format(name: Option<&str>) -> Result<Option<Format>, Failure> {
    let Some(name) = name else { return Ok(None) };
    match flowloom_formats::find_format(name) {
        Some(format) => Ok(Some(format)),
        None => {
            let names: Vec<_> = flowloom_formats::formats().map(|format| format.to_string()).collect();
            Err(Failure::usage(format!("there is no format {name:?}; it is one of {}", names.join(", "))))
        }
    }
}

/// Writes problems for people, with the lines of the source they are about.
pub(crate) fn render(source: &Source) -> String {
    let theme = if is_colour() { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    let handler = GraphicalReportHandler::new_themed(theme).with_width(110);
    let mut out = String::new();
    for diagnostic in &source.compiled.diagnostics {
        let text = source.text_of(diagnostic).into_owned();
        let shown = Shown { diagnostic, source: NamedSource::new(&diagnostic.file, text) };
        // Writing to a string cannot fail.
        let _ = handler.render_report(&mut out, &shown);
        out.push('\n');
    }
    out
}

/// Whether stderr takes colours: a terminal, and not asked otherwise.
pub(crate) fn is_colour() -> bool {
    use std::io::IsTerminal as _;
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && std::io::stderr().is_terminal()
}

#[derive(Debug)]
struct Shown<'a> {
    diagnostic: &'a Diagnostic,
    source: NamedSource<String>,
}

impl std::fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.diagnostic.message)
    }
}

impl std::error::Error for Shown<'_> {}

impl miette::Diagnostic for Shown<'_> {
    fn code<'b>(&'b self) -> Option<Box<dyn std::fmt::Display + 'b>> {
        Some(Box::new(self.diagnostic.code))
    }

    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.diagnostic.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
        })
    }

    fn help<'b>(&'b self) -> Option<Box<dyn std::fmt::Display + 'b>> {
        let fix = self.diagnostic.fix.as_ref().map(|fix| format!("check --fix will {}", fix.title));
        match (&self.diagnostic.help, fix) {
            (Some(help), Some(fix)) if fix.ends_with(help.as_str()) => Some(Box::new(fix)),
            (Some(help), Some(fix)) => Some(Box::new(format!("{help} ({fix})"))),
            (Some(help), None) => Some(Box::new(help.clone())),
            (None, Some(fix)) => Some(Box::new(fix)),
            (None, None) => None,
        }
    }

    fn source_code(&self) -> Option<&dyn miette::SourceCode> {
        (!self.source.inner().is_empty()).then_some(&self.source as &dyn miette::SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let span = self.diagnostic.span;
        // A span over a whole object would draw a frame around half the file; its first line is enough.
        let source = self.source.inner();
        let text = source.get(span.start..span.end()).unwrap_or_default();
        let length = text.find('\n').unwrap_or(span.length);
        // The end of the file has no line of its own to mark, so its last character is marked.
        let last = source.trim_end().char_indices().next_back().map_or(0, |(at, _)| at);
        let marked = if span.start > last { (last, 1) } else { (span.start, length) };
        Some(Box::new(std::iter::once(LabeledSpan::underline(marked))))
    }
}

/// Problems of several files as JSON, one object each.
pub(crate) fn to_json(sources: &[Source]) -> serde_json::Value {
    sources.iter().flat_map(shown).collect()
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

/// Problems as annotations of GitHub Actions.
pub(crate) fn to_github(sources: &[Source]) -> String {
    let escape = |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let list = to_json(sources);
    let lines = list.as_array().into_iter().flatten().map(|problem| {
        let text = |key: &str| problem[key].as_str().unwrap_or_default().to_owned();
        format!(
            "::{} file={},line={},col={},title={}::{}\n",
            text("severity"),
            escape(&text("file")),
            problem["line"],
            problem["column"],
            text("code"),
            escape(&said(problem)),
        )
    });
    lines.collect()
}

/// Message and advice of a problem, as one text.
fn said(problem: &serde_json::Value) -> String {
    match (problem["message"].as_str(), problem["help"].as_str()) {
        (Some(message), Some(help)) => format!("{message} ({help})"),
        (message, _) => message.unwrap_or_default().to_owned(),
    }
}

/// Problems as SARIF 2.1.0.
pub(crate) fn to_sarif(sources: &[Source]) -> serde_json::Value {
    let list = to_json(sources);
    let results: Vec<_> = list
        .as_array()
        .into_iter()
        .flatten()
        .map(|problem| {
            json!({
                "ruleId": problem["code"],
                "level": problem["severity"],
                "message": {"text": said(problem)},
                "locations": [{"physicalLocation": {
                    "artifactLocation": {"uri": problem["file"]},
                    "region": {"startLine": problem["line"], "startColumn": problem["column"]},
                }}],
            })
        })
        .collect();
    let mut codes: Vec<_> = sources.iter().flat_map(|source| &source.compiled.diagnostics).map(|d| d.code).collect();
    codes.sort_unstable();
    codes.dedup();
    let rules = codes.iter().map(|code| json!({"id": code, "shortDescription": {"text": code.title()}}));
    let driver = json!({"name": "flowloom", "version": env!("CARGO_PKG_VERSION"), "rules": rules.collect::<Vec<_>>()});
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}],
    })
}
