//! Additions to the text in an editor: symbols, folds, colours, hints and lenses.

use flowloom_app::listing::count_noun;
use std::path::Path;

use flowloom_core::render::shorten_text;
use flowloom_core::status::Status;
use lsp_types::{
    CodeLens, Command, DocumentSymbol, DocumentSymbolResponse, FoldingRange, InlayHint, InlayHintKind, InlayHintLabel,
    Position, Range, SemanticToken, SemanticTokens, SemanticTokensResult, SymbolKind, Url,
};
use serde_json::json;

use super::convert::TextView;
use super::features::Opened;
use super::runs::show_value;
use super::state::Snapshot;
use super::tests_of::find_tests;
use crate::analysis::names::{NameKind, Role};
use crate::analysis::outline::{ItemKind, OutlineItem, list_folds, list_parts};
use crate::analysis::tokens::list_tokens;

/// The command that runs a definition. The editor performs it.
pub(super) const RUN_COMMAND: &str = "flowloom.run";
/// The command that runs the tests of a definition. The editor performs it.
pub(super) const TEST_COMMAND: &str = "flowloom.test";
/// The command that shows a run. The editor performs it.
pub(super) const SHOW_RUN_COMMAND: &str = "flowloom.showRun";

/// The command that steps through a run. The editor performs it.
pub(super) const DEBUG_COMMAND: &str = "flowloom.debug";

/// Maximum number of characters of a value in a hint.
const MAX_HINT_CHARS: usize = 40;

/// The parts of a document, as a tree.
pub(super) fn list_symbols(snapshot: &Snapshot, uri: &Url) -> Option<DocumentSymbolResponse> {
    let opened = Opened::find(snapshot, uri)?;
    let parts = list_parts(&opened.file()?.index);
    Some(DocumentSymbolResponse::Nested(parts.into_iter().map(|part| write_symbol(part, opened.view())).collect()))
}

/// The icon of a part.
pub(super) fn symbol_kind(kind: ItemKind) -> SymbolKind {
    match kind {
        ItemKind::Group => SymbolKind::ARRAY,
        ItemKind::Step => SymbolKind::FUNCTION,
        ItemKind::Input => SymbolKind::VARIABLE,
        ItemKind::Heading => SymbolKind::STRING,
    }
}

#[expect(deprecated, reason = "the protocol's type has a field that is not used any more")]
fn write_symbol(part: OutlineItem, view: TextView<'_>) -> DocumentSymbol {
    let kind = symbol_kind(part.kind);
    let children: Vec<DocumentSymbol> = part.children.into_iter().map(|child| write_symbol(child, view)).collect();
    DocumentSymbol {
        name: part.name,
        detail: (!part.detail.is_empty()).then_some(part.detail),
        kind,
        tags: None,
        deprecated: None,
        range: view.find_range(part.span),
        selection_range: view.find_range(part.selection),
        children: (!children.is_empty()).then_some(children),
    }
}

/// The parts of a document that can be folded.
pub(super) fn list_folding_ranges(snapshot: &Snapshot, uri: &Url) -> Option<Vec<FoldingRange>> {
    let opened = Opened::find(snapshot, uri)?;
    let view = opened.view();
    let folds = list_folds(&opened.file()?.index, view.lines).into_iter().map(|span| {
        let range = view.find_range(span);
        // The line of the closing bracket stays visible.
        let closes = view.text[..span.end()].ends_with(['}', ']']);
        let end_line = range.end.line - u32::from(closes && range.end.line > range.start.line);
        FoldingRange { start_line: range.start.line, end_line, ..FoldingRange::default() }
    });
    Some(folds.filter(|fold| fold.start_line < fold.end_line).collect())
}

/// The meaning of the words of a document, each relative to the one before.
pub(super) fn list_semantic_tokens(snapshot: &Snapshot, uri: &Url) -> Option<SemanticTokensResult> {
    let opened = Opened::find(snapshot, uri)?;
    let view = opened.view();
    let mut before = Position::default();
    let mut data = Vec::new();
    for token in list_tokens(&opened.file()?.index) {
        let range = view.find_range(token.span);
        let is_same_line = range.start.line == before.line;
        data.push(SemanticToken {
            delta_line: range.start.line - before.line,
            delta_start: range.start.character - if is_same_line { before.character } else { 0 },
            length: range.end.character.saturating_sub(range.start.character),
            token_type: u32::try_from(token.kind).unwrap_or_default(),
            token_modifiers_bitset: u32::from(token.is_declaration),
        });
        before = range.start;
    }
    Some(SemanticTokensResult::Tokens(SemanticTokens { result_id: None, data }))
}

/// The type and the last value of each variable, where it gets its value.
pub(super) fn list_hints(snapshot: &Snapshot, uri: &Url, range: Range) -> Option<Vec<InlayHint>> {
    let opened = Opened::find(snapshot, uri)?;
    let view = opened.view();
    let last = opened.checked.as_deref().and_then(|checked| snapshot.runs.find_last(checked));
    let mut hints = Vec::new();
    for name in &opened.file()?.index.names {
        let at = view.find_range(name.span).end;
        let is_value =
            name.kind == NameKind::Variable || (name.kind == NameKind::Node && !name.about.fields.is_empty());
        if name.role == Role::Read || !is_value || at < range.start || range.end < at {
            continue;
        }
        let value = last.as_ref().and_then(|run| run.find_value(&name.text)).map(show_value);
        let value = value.map(|value| shorten_text(&value.replace('\n', " "), MAX_HINT_CHARS)).unwrap_or_default();
        let type_name = &name.about.type_name;
        let label = match (type_name.is_empty(), value.is_empty()) {
            (true, true) => continue,
            (true, false) => format!("= {value}"),
            (false, true) => format!(": {type_name}"),
            (false, false) => format!(": {type_name} = {value}"),
        };
        hints.push(InlayHint {
            position: at,
            label: InlayHintLabel::String(label),
            kind: Some(InlayHintKind::TYPE),
            text_edits: None,
            tooltip: None,
            padding_left: Some(true),
            padding_right: None,
            data: None,
        });
    }
    Some(hints)
}

/// The commands above a definition: run it, and show its last run, with the result and the cost.
pub(super) fn list_lenses(snapshot: &Snapshot, uri: &Url) -> Option<Vec<CodeLens>> {
    let opened = Opened::find(snapshot, uri)?;
    let checked = opened.checked.as_deref()?;
    // An included file is not run by itself.
    if opened.definition.main().path != checked.name || checked.format.is_none() {
        return None;
    }
    let lens = |title: String, command: &str, argument: serde_json::Value| CodeLens {
        range: Range::default(),
        command: Some(Command::new(title, command.to_owned(), Some(vec![argument]))),
        data: None,
    };
    let mut lenses = Vec::new();
    if checked.plan.is_some() {
        lenses.push(lens("▶ run".to_owned(), RUN_COMMAND, json!(uri)));
    }
    let project = checked.config.as_ref().map(|config| config.project.root.clone()).unwrap_or_default();
    let tests = find_tests(Path::new(&checked.name), &project);
    if !tests.is_empty() {
        let files: Vec<String> = tests.iter().map(|file| file.display().to_string()).collect();
        lenses.push(lens(count_noun(files.len(), "test"), TEST_COMMAND, json!(files)));
    }
    if let Some(run) = snapshot.runs.find_last(checked) {
        let cost = match run.usage.micro_usd {
            Some(0) => String::new(),
            Some(micro) => format!(", ${:.4}", micro as f64 / 1e6),
            None => ", unknown cost".to_owned(),
        };
        let tokens = match run.usage.input_tokens + run.usage.output_tokens {
            0 => String::new(),
            tokens => format!(", {tokens} tokens"),
        };
        let sign = if run.status == Status::Succeeded { "✓" } else { "✗" };
        let title = format!("{sign} last run: {}{tokens}{cost}", run.status.name());
        lenses.push(lens(title, SHOW_RUN_COMMAND, json!(run.id.to_string())));
        let arguments = json!({"definition": uri, "run": run.id.to_string()});
        lenses.push(lens("step through it".to_owned(), DEBUG_COMMAND, arguments));
    }
    Some(lenses)
}
