//! Diagnostics and their fixes in the form of the protocol.

use std::collections::BTreeMap;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{self, Severity, Span, apply_safe_fixes};
use flowloom_formats::{format_part, format_source};
use lsp_types::{
    CodeAction, CodeActionKind, CodeActionOrCommand, CodeActionParams, CodeDescription, Diagnostic,
    DiagnosticRelatedInformation, DiagnosticSeverity, DiagnosticTag, Location, NumberOrString, Range, TextEdit, Url,
    WorkspaceEdit,
};

use super::check::Checked;
use super::convert::TextView;
use super::state::Snapshot;
use crate::analysis::lines::Lines;
use crate::analysis::related::find_related;

/// Maximum number of rounds of fixes: one can reveal further problems.
const MAX_FIX_ROUNDS: u32 = 10;

/// Codes of parts of a definition that have no effect. Editors show them faded.
const UNNECESSARY: [Code; 6] = [
    Code::UnusedField,
    Code::TrailingFinish,
    Code::AfterDirectOutput,
    Code::IgnoredContent,
    Code::IgnoredKey,
    Code::Unreachable,
];

/// Writes the diagnostics of a checked document.
pub(super) struct DiagnosticWriter<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) checked: &'a Checked,
    pub(super) entry: &'a Url,
}

impl DiagnosticWriter<'_> {
    /// All diagnostics, by the file that they belong to.
    pub(super) fn write_all(&self) -> BTreeMap<Url, Vec<Diagnostic>> {
        let mut all: BTreeMap<Url, Vec<Diagnostic>> = BTreeMap::new();
        let mut lines: BTreeMap<&str, Lines> = BTreeMap::new();
        for diagnostic in &self.checked.diagnostics {
            let Some(uri) = self.find_uri(&diagnostic.file) else { continue };
            let text = self.find_text(&diagnostic.file);
            let lines = lines.entry(&diagnostic.file).or_insert_with(|| Lines::new(text));
            let view = TextView { text, lines, unit: self.snapshot.unit };
            all.entry(uri.clone()).or_default().push(self.write_one(diagnostic, view, &uri));
        }
        all
    }

    /// The address of a file that diagnostics name.
    fn find_uri(&self, file: &str) -> Option<Url> {
        if file == self.checked.name {
            return Some(self.entry.clone());
        }
        let path = std::path::Path::new(file);
        let open = self.snapshot.documents.find_by_path(path);
        open.map(|document| document.uri.clone()).or_else(|| Url::from_file_path(path).ok())
    }

    fn find_text(&self, file: &str) -> &str {
        self.checked.files.get(file).map_or("", |text| text)
    }

    fn write_one(&self, diagnostic: &diagnostic::Diagnostic, view: TextView<'_>, uri: &Url) -> Diagnostic {
        let message = match &diagnostic.help {
            Some(help) => format!("{}\nhelp: {help}", diagnostic.message),
            None => diagnostic.message.clone(),
        };
        let related: Vec<DiagnosticRelatedInformation> = find_related(view.text, diagnostic)
            .into_iter()
            .map(|related| DiagnosticRelatedInformation {
                location: Location::new(uri.clone(), view.find_range(related.span)),
                message: related.message.to_owned(),
            })
            .collect();
        Diagnostic {
            range: view.find_range(show_span(diagnostic.span)),
            severity: Some(match diagnostic.severity {
                Severity::Error => DiagnosticSeverity::ERROR,
                Severity::Warning => DiagnosticSeverity::WARNING,
            }),
            code: Some(NumberOrString::String(diagnostic.code.to_string())),
            code_description: self.snapshot.pages.find_address(diagnostic.code).map(|href| CodeDescription { href }),
            source: Some("flowloom".to_owned()),
            message,
            related_information: (!related.is_empty()).then_some(related),
            tags: UNNECESSARY.contains(&diagnostic.code).then(|| vec![DiagnosticTag::UNNECESSARY]),
            data: None,
        }
    }
}

/// A span that can be seen: a point is shown as one character.
fn show_span(span: Span) -> Span {
    Span { start: span.start, length: span.length.max(1) }
}

/// The fixes for a range of a document: one for each problem there, and one for all problems of the document.
pub(super) fn list_actions(snapshot: &Snapshot, params: &CodeActionParams) -> Option<Vec<CodeActionOrCommand>> {
    let uri = &params.text_document.uri;
    let document = snapshot.documents.find(uri)?;
    let checked = snapshot.find_result(uri)?;
    let view = TextView { text: &document.text, lines: &document.lines, unit: snapshot.unit };
    let is_wanted = |kind: &CodeActionKind| {
        let only = params.context.only.as_ref();
        only.is_none_or(|only| only.iter().any(|wanted| kind.as_str().starts_with(wanted.as_str())))
    };
    let own = || checked.diagnostics.iter().filter(|problem| problem.file == checked.name && problem.fix.is_some());
    let mut actions = Vec::new();
    let writer = DiagnosticWriter { snapshot, checked: &checked, entry: uri };
    for problem in own().filter(|_| is_wanted(&CodeActionKind::QUICKFIX)) {
        let range = view.find_range(show_span(problem.span));
        let Some(fix) = problem.fix.as_ref().filter(|_| touches(range, params.range)) else { continue };
        let edits = fix.edits.iter().map(|(span, text)| view.replace(*span, text)).collect();
        actions.push(CodeActionOrCommand::CodeAction(CodeAction {
            title: fix.title.clone(),
            kind: Some(CodeActionKind::QUICKFIX),
            diagnostics: Some(vec![writer.write_one(problem, view, uri)]),
            edit: Some(edit_document(uri, edits)),
            // Editors apply preferred actions without showing them.
            is_preferred: Some(fix.is_safe()),
            ..CodeAction::default()
        }));
    }
    if own().any(|problem| problem.safe_fix().is_some())
        && is_wanted(&CodeActionKind::SOURCE_FIX_ALL)
        && let Some(edits) = fix_all(snapshot, uri, &checked, view)
    {
        actions.push(CodeActionOrCommand::CodeAction(CodeAction {
            title: "fix all problems that can be fixed".to_owned(),
            kind: Some(CodeActionKind::SOURCE_FIX_ALL),
            edit: Some(edit_document(uri, edits)),
            ..CodeAction::default()
        }));
    }
    Some(actions)
}

/// The edits of all fixes, and of those for the problems that they reveal.
fn fix_all(snapshot: &Snapshot, uri: &Url, checked: &Checked, view: TextView<'_>) -> Option<Vec<TextEdit>> {
    let mut job = snapshot.new_check(uri)?;
    let mut diagnostics = checked.diagnostics.clone();
    let mut fixed = view.text.to_owned();
    for _ in 0..MAX_FIX_ROUNDS {
        diagnostics.retain(|problem| problem.file == checked.name);
        let (text, count) = apply_safe_fixes(&fixed, &diagnostics);
        if count == 0 {
            break;
        }
        fixed = text;
        job.replace_text(&fixed);
        diagnostics = job.check().diagnostics;
    }
    (fixed != view.text).then(|| vec![replace_difference(view, &fixed)])
}

/// The edit that gives a document the canonical layout of its format. A document that cannot be read stays as it is: its
/// problems are shown already.
pub(super) fn lay_out(snapshot: &Snapshot, uri: &Url) -> Option<Vec<TextEdit>> {
    let document = snapshot.documents.find(uri)?;
    let view = TextView { text: &document.text, lines: &document.lines, unit: snapshot.unit };
    let name = document.path.display().to_string();
    let part = || format_part(&name, view.text);
    let format = document.format.or_else(|| snapshot.find_last_result(uri)?.format);
    let laid_out = format.and_then(|format| format_source(format, &name, view.text).ok()).or_else(part)?;
    Some(if laid_out == view.text { Vec::new() } else { vec![replace_difference(view, &laid_out)] })
}

/// The edit that turns a text into another one: it replaces the text between their common start and end.
fn replace_difference(view: TextView<'_>, new: &str) -> TextEdit {
    let old = view.text;
    let same = |a: &mut dyn Iterator<Item = (char, char)>| -> usize {
        a.take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum()
    };
    let start = same(&mut old.chars().zip(new.chars()));
    let end = same(&mut old[start..].chars().rev().zip(new[start..].chars().rev()));
    let span = Span { start, length: old.len() - end - start };
    view.replace(span, &new[start..new.len() - end])
}

fn edit_document(uri: &Url, edits: Vec<TextEdit>) -> WorkspaceEdit {
    WorkspaceEdit::new([(uri.clone(), edits)].into())
}

fn touches(a: Range, b: Range) -> bool {
    a.start <= b.end && b.start <= a.end
}
