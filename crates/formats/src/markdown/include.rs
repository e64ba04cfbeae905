//! Inserted Markdown: included files and fragments.

use std::ops::Range;

use flowloom_core::code::Code;

use super::MarkdownCompiler;
use super::expression::Paragraph;
use super::parse::{TextPiece, parse};
use super::scope::ScopeNames;
use super::text::TextContext;

/// Maximum depth of includes.
const MAX_INCLUDE_DEPTH: usize = 16;
/// The folder of a project that holds its prompts.
pub const PROMPTS_FOLDER: &str = "prompts/";
/// The folder next to it that holds the workflows.
pub const FLOWS_FOLDER: &str = "flows";
/// Maximum total number of includes.
const MAX_INCLUDES: usize = 1_000;

impl MarkdownCompiler<'_> {
    /// The paragraphs of an included file; `None`, with an error, if it cannot be used.
    pub(super) fn include_file(
        &mut self,
        text: &TextPiece<'_>,
        path: &str,
        range: Range<usize>,
        names: &ScopeNames,
        locals: &[String],
    ) -> Option<Vec<Paragraph>> {
        let Some(places) = resolve_path(self.entry, path) else {
            let message = format!("include({path:?}) is outside the workflow's folder");
            self.report_error(text, Code::IncludeFailed, range.start, range.end, message).help =
                Some("put the file into the folder of the workflow, or below it".into());
            return None;
        };
        let sources = self.sources;
        let name = places.iter().find(|place| sources.files.contains_key(*place)).unwrap_or(&places[0]).clone();
        if let Some(first) = self.including.iter().position(|file| *file == name) {
            let circle = [&self.including[first..], std::slice::from_ref(&name)].concat().join(" > ");
            let message = format!("circular dependency: {circle}");
            self.report_error(text, Code::IncludeFailed, range.start, range.end, message).help =
                Some("a file cannot include itself, directly or through another file".into());
            return None;
        }
        self.inclusions += 1;
        if self.including.len() > MAX_INCLUDE_DEPTH || self.inclusions > MAX_INCLUDES {
            let message =
                format!("files include each other more than {MAX_INCLUDE_DEPTH} levels deep or {MAX_INCLUDES} times");
            self.report_error(text, Code::TooComplex, range.start, range.end, message);
            return None;
        }
        let Some((file, bytes)) = sources.files.get_key_value(&name) else {
            let message = format!("prompt not found: {path} (looked for {})", places.join(", "));
            for place in places {
                if !self.missing_files.contains(&place) {
                    self.missing_files.push(place);
                }
            }
            self.report_error(text, Code::IncludeFailed, range.start, range.end, message).help = Some(
                "write the file's path from the workflow's folder or from the folder prompts; .mdx may be left out"
                    .into(),
            );
            return None;
        };
        let Ok(whole) = std::str::from_utf8(bytes) else {
            let message = format!("{name} is not UTF-8 text");
            self.report_error(text, Code::IncludeFailed, range.start, range.end, message);
            return None;
        };
        if let Err(message) = super::source::check_limits(whole) {
            self.report_error(text, Code::TooComplex, range.start, range.end, format!("{name}: {message}"));
            return None;
        }
        let inner = TextPiece { file, whole, stops: vec![(0, 0)], text: whole };
        self.including.push(name);
        let nodes = parse(&inner, true, self.problems);
        let around = TextContext { names, locals, is_inserted: true, has_else: false, is_stray_else: false };
        let blocks = nodes.map(|nodes| self.compile_blocks(&nodes.iter().collect::<Vec<_>>(), &inner, &around));
        self.including.pop();
        blocks
    }

    /// The paragraphs of a fragment.
    pub(super) fn compile_fragment(
        &mut self,
        text: &TextPiece<'_>,
        names: &ScopeNames,
        locals: &[String],
    ) -> Option<Vec<Paragraph>> {
        self.fragments += 1;
        let nodes = if self.fragments > MAX_INCLUDE_DEPTH { None } else { parse(text, false, self.problems) };
        let around = TextContext { names, locals, is_inserted: true, has_else: false, is_stray_else: false };
        let blocks = nodes.map(|nodes| self.compile_blocks(&nodes.iter().collect::<Vec<_>>(), text, &around));
        self.fragments -= 1;
        blocks
    }
}

/// The places of an included file in the order in which they count: in the folder of the definition, in the folder of
/// prompts there, and in the one next to the folder of flows. `None` if the path leads out of these folders.
fn resolve_path(entry: &str, path: &str) -> Option<Vec<String>> {
    let folder = entry.rfind(['/', '\\']).map_or("", |at| &entry[..=at]);
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split(['/', '\\']) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    if path.starts_with(['/', '\\']) || path.contains('\0') || parts.is_empty() {
        return None;
    }
    let name = parts.join("/");
    let extended = if name.ends_with(".mdx") || name.ends_with(".md") { name } else { name + ".mdx" };
    let mut places = vec![format!("{folder}{extended}"), format!("{folder}{PROMPTS_FOLDER}{extended}")];
    let project = folder.trim_end_matches(['/', '\\']).strip_suffix(FLOWS_FOLDER);
    let project = project.filter(|project| project.is_empty() || project.ends_with(['/', '\\']));
    places.extend(project.map(|project| format!("{project}{PROMPTS_FOLDER}{extended}")));
    Some(places)
}
