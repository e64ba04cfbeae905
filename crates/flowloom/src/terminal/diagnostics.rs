//! Problems of definitions as they are written: for people, as JSON, as annotations of GitHub Actions, and as SARIF.

use std::ops::Range;

use flowloom_app::definitions::source::{LoadedDefinition, SourceText, SourceTexts};
use flowloom_core::diagnostic::{Diagnostic, Severity, Span};
use miette::{GraphicalReportHandler, GraphicalTheme, LabeledSpan};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

use super::excerpt::{Excerpt, MAX_EXCERPT_BYTES};
use super::width::stderr_columns;
use crate::flags::{append_hint, hint_for_diagnostic};
use crate::print::{replace_controls, show_name};
use crate::style::colors_stderr;

/// Prints diagnostics for people to stderr, with the affected source lines.
pub(crate) fn print_diagnostics(source: &LoadedDefinition) {
    // The texts have no control characters any more; those that are left are colours.
    std::eprint!("{}", render_diagnostics(source));
}

fn render_diagnostics(source: &LoadedDefinition) -> String {
    let columns = stderr_columns();
    let mut out = String::new();
    let mut texts = SourceTexts::new(source);
    for diagnostic in &source.compiled.diagnostics {
        let (shown, text) = (without_controls(diagnostic), texts.find_text(diagnostic));
        let rendered = RenderedDiagnostic::new(&shown, text, columns);
        let handler = GraphicalReportHandler::new_themed(build_theme(diagnostic));
        let handler = match columns {
            Some(columns) => handler.with_width(columns),
            // Programs look for messages in one piece.
            None => handler.with_wrap_lines(false),
        };
        let mut report = String::new();
        // Writing to a string cannot fail.
        let _ = handler.render_report(&mut report, &rendered);
        // The handler indents the header.
        out.push_str(report.trim_start_matches(['\n', ' ']));
        out.push('\n');
    }
    if let Some(rest) = source.rest_problem() {
        out.push_str(&format!(
            "{}: {}\n\n",
            show_name(source.name()),
            message_with_hint(&rest.message, rest.help.as_deref())
        ));
    }
    out
}

/// The colours, and the header `error[FL0105]:` in the place of a symbol.
fn build_theme(diagnostic: &Diagnostic) -> GraphicalTheme {
    let mut theme = if colors_stderr() { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    theme.characters.error = format!("error[{}]:", diagnostic.code);
    theme.characters.warning = format!("warning[{}]:", diagnostic.code);
    theme
}

/// A diagnostic whose texts cannot control the terminal, with the flag that helps.
fn without_controls(diagnostic: &Diagnostic) -> Diagnostic {
    let clean = |text: &str| replace_controls(text).into_owned();
    let mut shown = diagnostic.clone();
    shown.file = show_name(&diagnostic.file).into_owned();
    // Messages that name the file must not have the lines of its name either.
    shown.message = clean(&diagnostic.message.replace(&diagnostic.file, &shown.file));
    let hint = hint_for_diagnostic(shown.code, shown.severity == Severity::Error);
    shown.help = match shown.help.as_deref().map(clean) {
        Some(help) => Some(append_hint(&help, hint).into_owned()),
        None => hint.map(str::to_owned),
    };
    if let Some(fix) = &mut shown.fix {
        fix.title = clean(&fix.title);
    }
    shown
}

#[derive(Debug)]
struct RenderedDiagnostic<'a> {
    diagnostic: &'a Diagnostic,
    excerpt: Excerpt<'a>,
    /// The bytes of the excerpt that are underlined.
    marked: Range<usize>,
}

impl<'a> RenderedDiagnostic<'a> {
    fn new(diagnostic: &'a Diagnostic, source: &'a SourceText<'a>, columns: Option<usize>) -> RenderedDiagnostic<'a> {
        let marked = find_marked(diagnostic.span, &source.text);
        let excerpt = Excerpt::new(&diagnostic.file, source, marked.clone(), columns);
        let marked = excerpt.locate_mark(marked);
        RenderedDiagnostic { diagnostic, excerpt, marked }
    }
}

/// The bytes that are underlined.
fn find_marked(span: Span, source: &str) -> Range<usize> {
    // A span over a whole object would frame half the file; its first line is enough.
    let end = source.floor_char_boundary(span.end().min(span.start.saturating_add(MAX_EXCERPT_BYTES)));
    let text = source.get(span.start..end).unwrap_or_default();
    let length = text.find('\n').unwrap_or(span.length.min(MAX_EXCERPT_BYTES));
    // The end of the file has no character of its own to mark, so the last one is marked.
    let last = source.trim_end().char_indices().next_back().map_or(0, |(at, _)| at);
    if span.start > last { last..last + 1 } else { span.start..span.start + length }
}

impl std::fmt::Display for RenderedDiagnostic<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Diagnostic { file, message, .. } = self.diagnostic;
        // Without an excerpt, nothing else names the file.
        if self.excerpt.source.text.is_empty() && !message.contains(file.as_str()) {
            write!(f, "{file}: ")?;
        }
        f.write_str(&self.diagnostic.message)
    }
}

impl std::error::Error for RenderedDiagnostic<'_> {}

impl miette::Diagnostic for RenderedDiagnostic<'_> {
    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.diagnostic.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
        })
    }

    fn help<'b>(&'b self) -> Option<Box<dyn std::fmt::Display + 'b>> {
        let fix = self.diagnostic.safe_fix().map(|fix| format!("check --fix will {}", fix.title));
        match (&self.diagnostic.help, fix) {
            (Some(help), Some(fix)) if fix.ends_with(help.as_str()) => Some(Box::new(fix)),
            (Some(help), Some(fix)) => Some(Box::new(format!("{help} ({fix})"))),
            (Some(help), None) => Some(Box::new(help.clone())),
            (None, Some(fix)) => Some(Box::new(fix)),
            (None, None) => None,
        }
    }

    fn source_code(&self) -> Option<&dyn miette::SourceCode> {
        (!self.excerpt.source.text.is_empty()).then_some(&self.excerpt as &dyn miette::SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let marked = (self.marked.start, self.marked.len());
        Some(Box::new(std::iter::once(LabeledSpan::underline(marked))))
    }
}

/// Diagnostics of several files as JSON, one object each.
pub(crate) fn to_json(sources: &[LoadedDefinition]) -> serde_json::Value {
    sources.iter().flat_map(LoadedDefinition::problems).collect()
}

/// Diagnostics as GitHub Actions annotations.
pub(crate) fn to_github(sources: &[LoadedDefinition]) -> String {
    let escape = |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let escape_property = |text: &str| escape(text).replace(':', "%3A").replace(',', "%2C");
    let list = to_json(sources);
    let lines = list.as_array().into_iter().flatten().map(|problem| {
        let text = |key: &str| problem[key].as_str().unwrap_or_default().to_owned();
        format!(
            "::{} file={},line={},col={},title={}::{}\n",
            text("severity"),
            escape_property(&text("file")),
            problem["line"],
            problem["column"],
            text("code"),
            escape(&message_with_help(problem)),
        )
    });
    lines.collect()
}

/// Message and hint of a diagnostic as one text.
fn message_with_help(problem: &serde_json::Value) -> String {
    message_with_hint(problem["message"].as_str().unwrap_or_default(), problem["help"].as_str())
}

fn message_with_hint(message: &str, help: Option<&str>) -> String {
    help.map_or_else(|| message.to_owned(), |help| format!("{message} ({help})"))
}

/// Diagnostics as SARIF 2.1.0.
pub(crate) fn to_sarif(sources: &[LoadedDefinition]) -> serde_json::Value {
    let list = to_json(sources);
    let results: Vec<_> = list
        .as_array()
        .into_iter()
        .flatten()
        .map(|problem| {
            json!({
                "ruleId": problem["code"],
                "level": problem["severity"],
                "message": {"text": message_with_help(problem)},
                "locations": [{"physicalLocation": {
                    "artifactLocation": {"uri": write_uri(problem["file"].as_str().unwrap_or_default())},
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

/// The characters of a path that are escaped in a URI.
const PATH_ESCAPES: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The path of a file as a URI: that of an absolute path has a scheme, any other is relative to the current folder.
fn write_uri(path: &str) -> String {
    let path = path.strip_prefix("./").unwrap_or(path);
    let scheme = if path.starts_with('/') { "file://" } else { "" };
    format!("{scheme}{}", utf8_percent_encode(path, PATH_ESCAPES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_written_as_uris() {
        for (path, uri) in [
            ("flows/a_b-c~1.json", "flows/a_b-c~1.json"),
            ("./a.json", "a.json"),
            ("my flow#1 100%.json", "my%20flow%231%20100%25.json"),
            ("\u{fc}ber.mdx", "%C3%BCber.mdx"),
            ("c:x.json", "c%3Ax.json"),
            ("/tmp/a b.json", "file:///tmp/a%20b.json"),
        ] {
            assert_eq!(write_uri(path), uri, "{path}");
        }
    }
}
