//! `POST /api/v1/definitions/analyze`: what an editor shows at a place of a definition: completions, the meaning, fixes.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use flowloom_app::definitions::catalog::Catalog;
use flowloom_app::keys::Scope;
use flowloom_core::diagnostic::{Diagnostic, Fix, Span, apply_safe_fixes};
use flowloom_core::plan::Format;
use flowloom_formats::StopFlag;
use flowloom_lsp::analysis::completion::{Proposal, ProposalKind, list_proposals};
use flowloom_lsp::analysis::definition::{Definition, IndexedFile};
use flowloom_lsp::analysis::hover::find_meaning;
use flowloom_lsp::analysis::known::{Known, KnownName};
use flowloom_lsp::analysis::names::{Name, NameKind, ValueField};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::opened::{OpenDefinition, OpenSource, find_file, list_known};
use crate::blocking::compile_to_json;
use crate::body::JsonObject;
use crate::caller::Caller;
use crate::definitions::change::OwnerQuery;
use crate::params::QueryParams;
use crate::problem::{ApiResult, Problem, ProblemDocument};

/// Maximum number of rounds of fixes: one can reveal further problems.
const MAX_FIX_ROUNDS: u32 = 10;

/// The kind of question about a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Question {
    /// What can be written there
    Completions,
    /// What the thing there means
    Meaning,
    /// The fixes of all problems of the entry
    Fixes,
    /// The variables that can be used there
    Variables,
    /// What exists outside of the definition and can be named in it
    Names,
}

/// A question about a definition.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnalyzeRequest {
    source: OpenSource,
    what: Question,
    /// The file; the entry by default.
    #[serde(default)]
    file: Option<String>,
    /// The place in the file, in bytes.
    #[serde(default)]
    at: usize,
}

/// A completion at a place.
#[derive(Serialize, ToSchema)]
pub(crate) struct Completion {
    /// The label in a list.
    label: String,
    /// `key`, `value`, `variable`, `function`, `reference`, `skeleton` or `member`.
    kind: &'static str,
    /// A few words about it.
    detail: String,
    /// More about it, as Markdown.
    meaning: String,
    /// First byte of what it replaces.
    start: usize,
    /// Length of what it replaces, in bytes.
    length: usize,
    /// The text to insert.
    insert: String,
    /// Whether `insert` has places to fill in, in the form of the Language Server Protocol.
    is_snippet: bool,
}

/// The meaning of a key, a name or an expression.
#[derive(Serialize, ToSchema)]
pub(crate) struct MeaningInfo {
    /// First byte of the thing.
    start: usize,
    /// Length of the thing, in bytes.
    length: usize,
    /// The meaning, as Markdown.
    text: String,
}

/// A replacement of a part of the text.
#[derive(Serialize, ToSchema)]
pub(crate) struct TextChange {
    /// First byte of what is replaced.
    start: usize,
    /// Length of what is replaced, in bytes.
    length: usize,
    /// The new text.
    text: String,
}

/// The fix of a problem.
#[derive(Serialize, ToSchema)]
pub(crate) struct FixInfo {
    /// The code of the problem.
    code: String,
    /// First byte of the problem.
    start: usize,
    /// Length of the problem, in bytes.
    length: usize,
    /// A description of the fix.
    title: String,
    /// Whether it needs no judgement, so that `fixed` contains it.
    is_safe: bool,
    /// Its changes.
    changes: Vec<TextChange>,
}

/// The answer to a question about a definition. What was not asked is empty.
#[derive(Default, Serialize, ToSchema)]
pub(crate) struct Analysis {
    completions: Vec<Completion>,
    meaning: Option<MeaningInfo>,
    fixes: Vec<FixInfo>,
    /// The text of the entry with all safe fixes, and with those of the problems that they reveal; null if there are none.
    fixed: Option<String>,
    variables: Vec<VariableInfo>,
    names: Option<NameLists>,
}

/// A variable that a text can refer to.
#[derive(Serialize, ToSchema)]
pub(crate) struct VariableInfo {
    name: String,
    /// The type of its value; empty if it is not known.
    type_name: String,
    /// Where its value comes from.
    origin: String,
    /// The fields of its value, if they are known.
    fields: Vec<FieldInfo>,
}

/// A field of a variable's value.
#[derive(Serialize, ToSchema)]
pub(crate) struct FieldInfo {
    name: String,
    /// The type of its value, such as `string`; empty if it is not known.
    type_name: String,
    /// Its description; empty if there is none.
    description: String,
}

impl From<ValueField> for FieldInfo {
    fn from(field: ValueField) -> FieldInfo {
        FieldInfo { name: field.name, type_name: field.type_name, description: field.description }
    }
}

/// Names that exist outside of a definition.
#[derive(Serialize, ToSchema)]
pub(crate) struct NameLists {
    functions: Vec<NamedThing>,
    models: Vec<NamedThing>,
    blocks: Vec<NamedThing>,
    agents: Vec<NamedThing>,
    workflows: Vec<NamedThing>,
}

/// Something that can be named.
#[derive(Serialize, ToSchema)]
pub(crate) struct NamedThing {
    name: String,
    /// A short description.
    detail: String,
}

/// Answers what an editor asks about a definition that is being written. Nothing is stored.
#[utoipa::path(post, path = "/api/v1/definitions/analyze", tag = "workflows", operation_id = "analyze_definition", security(("key" = ["read"])), params(OwnerQuery),
    request_body = AnalyzeRequest,
    responses((status = 200, body = Analysis), (status = 400, body = ProblemDocument)))]
pub(crate) async fn analyze_definition(
    State(catalog): State<Arc<Catalog>>,
    caller: Caller,
    QueryParams(whose): QueryParams<OwnerQuery>,
    JsonObject(asked, _): JsonObject<AnalyzeRequest>,
) -> ApiResult<Response> {
    caller.require_scope(Scope::Read)?;
    let user = caller.resolve_user(whose.user)?;
    let answer = move |stop: &StopFlag| {
        let opened = asked.source.open()?;
        match asked.what {
            Question::Fixes => list_fixes(&catalog, &user, opened, stop),
            what => {
                let Some(definition) = opened.build_index(catalog.config().limits.source_bytes, stop)? else {
                    return Ok(Analysis::default());
                };
                let spot = Spot { what, file: asked.file.as_deref(), at: asked.at };
                look_up(list_known(&catalog, &user)?, &definition, spot)
            }
        }
    };
    compile_to_json(answer).await
}

/// A place, and what is asked about it.
#[derive(Clone, Copy)]
struct Spot<'a> {
    what: Question,
    file: Option<&'a str>,
    at: usize,
}

fn look_up(known: Known, definition: &Definition, spot: Spot<'_>) -> Result<Analysis, Problem> {
    let file = find_file(definition, spot.file)?;
    let offset = file.index.text.floor_char_boundary(spot.at);
    Ok(match spot.what {
        Question::Completions => {
            let proposals = list_proposals(definition, file, offset, &known);
            Analysis { completions: proposals.into_iter().map(to_completion).collect(), ..Analysis::default() }
        }
        Question::Names => Analysis { names: Some(write_names(known, file.index.format)), ..Analysis::default() },
        Question::Variables => Analysis { variables: list_variables(definition, file, offset), ..Analysis::default() },
        Question::Meaning | Question::Fixes => {
            let meaning = find_meaning(definition, file, offset, &known).map(|meaning| MeaningInfo {
                start: meaning.span.start,
                length: meaning.span.length,
                text: meaning.text,
            });
            Analysis { meaning, ..Analysis::default() }
        }
    })
}

fn to_completion(proposal: Proposal) -> Completion {
    Completion {
        kind: match proposal.kind {
            ProposalKind::Key => "key",
            ProposalKind::Value => "value",
            ProposalKind::Skeleton => "skeleton",
            ProposalKind::Member => "member",
            ProposalKind::Name(NameKind::Variable | NameKind::Field) => "variable",
            ProposalKind::Name(NameKind::Function | NameKind::Tool) => "function",
            ProposalKind::Name(_) => "reference",
        },
        label: proposal.label,
        detail: proposal.detail,
        meaning: proposal.meaning,
        start: proposal.replaces.start,
        length: proposal.replaces.length,
        insert: proposal.insert,
        is_snippet: proposal.is_snippet,
    }
}

/// Maximum number of fields in a list of variables. Many nodes can have a block with many fields, so the list could be as long
/// as the square of the definition.
const MAX_VARIABLE_FIELDS: usize = 10_000;

fn list_variables(definition: &Definition, file: &IndexedFile, offset: usize) -> Vec<VariableInfo> {
    let kind = if file.index.is_pipeline() { NameKind::Node } else { NameKind::Variable };
    let kind = file.index.find_template(offset).map_or(kind, |template| template.kind);
    let visible = definition.list_visible(file, offset, kind);
    let mut fields_left = MAX_VARIABLE_FIELDS;
    let variable = |name: Name| {
        let fields = if fields_left == 0 { Vec::new() } else { definition.list_fields(&name) };
        let fields: Vec<FieldInfo> = fields.into_iter().take(fields_left).map(FieldInfo::from).collect();
        fields_left -= fields.len();
        VariableInfo { fields, name: name.text, type_name: name.about.type_name, origin: name.about.origin }
    };
    visible.into_iter().map(variable).collect()
}

fn write_names(known: Known, format: Option<Format>) -> NameLists {
    let write = |names: Vec<KnownName>| {
        names.into_iter().map(|name| NamedThing { name: name.name, detail: name.detail }).collect()
    };
    NameLists {
        functions: write(known.list_functions(format)),
        models: write(known.models),
        blocks: write(known.blocks),
        agents: write(known.agents),
        workflows: write(known.workflows),
    }
}

fn list_fixes(catalog: &Catalog, user: &str, mut opened: OpenDefinition, stop: &StopFlag) -> Result<Analysis, Problem> {
    let entry = opened.content.entry.clone();
    let text = opened.text().to_owned();
    let own = |opened: &OpenDefinition| -> Result<Vec<Diagnostic>, Problem> {
        let mut found = opened.compile(catalog, user, stop)?.source.compiled.diagnostics;
        found.retain(|problem| problem.file == entry && problem.fix.is_some());
        Ok(found)
    };
    let mut problems = own(&opened)?;
    let fixes = problems.iter().filter_map(|problem| Some(describe_fix(problem, problem.fix.as_ref()?))).collect();
    let mut fixed = text.clone();
    for _ in 0..MAX_FIX_ROUNDS {
        let (better, count) = apply_safe_fixes(&fixed, &problems);
        if count == 0 || stop.is_stopped() {
            break;
        }
        fixed.clone_from(&better);
        opened.content.files.insert(entry.clone(), better);
        problems = own(&opened)?;
    }
    let fixed = (fixed != text).then_some(fixed);
    Ok(Analysis { fixes, fixed, ..Analysis::default() })
}

fn describe_fix(problem: &Diagnostic, fix: &Fix) -> FixInfo {
    let change =
        |(span, text): &(Span, String)| TextChange { start: span.start, length: span.length, text: text.clone() };
    FixInfo {
        code: problem.code.to_string(),
        start: problem.span.start,
        length: problem.span.length,
        title: fix.title.clone(),
        is_safe: fix.is_safe(),
        changes: fix.edits.iter().map(change).collect(),
    }
}
