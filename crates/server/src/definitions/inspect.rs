//! `POST /api/v1/definitions/inspect` and `POST /api/v1/definitions/edit`: a definition as parts with forms, and changes of
//! them in its text.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use flowloom_app::definitions::catalog::Catalog;
use flowloom_app::definitions::outline::outline_plan;
use flowloom_app::keys::Scope;
use flowloom_core::code::Code;
use flowloom_core::json::parse_value;
use flowloom_core::plan::{Format, Plan};
use flowloom_core::value::Value;
use flowloom_formats::StopFlag;
use flowloom_formats::pipeline;
use flowloom_lsp::analysis::json_place::{JsonPath, PathStep};
use flowloom_lsp::builder::edit::EditEnv;
use flowloom_lsp::builder::inspect::{Link, Part};
use flowloom_lsp::builder::{Edit, Inspection, apply_edits, inspect_definition};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::opened::{OpenDefinition, OpenSource, check_time};
use crate::blocking::compile_to_json;
use crate::body::JsonObject;
use crate::caller::Caller;
use crate::definitions::change::OwnerQuery;
use crate::params::QueryParams;
use crate::problem::{ApiResult, Problem, ProblemDocument};

/// Maximum number of changes of one request.
const MAX_EDITS: usize = 1000;

/// Maximum sum of the bytes that the changes of one request read: each reads the whole text.
const MAX_EDITED_BYTES: usize = 64 << 20;

/// A step of a path: a key, or a position in a list.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = PathStep)]
pub(crate) enum PathPart {
    Position(usize),
    Key(String),
}

impl From<PathPart> for PathStep {
    fn from(part: PathPart) -> PathStep {
        match part {
            PathPart::Position(index) => PathStep::Index(index),
            PathPart::Key(key) => PathStep::Key(key),
        }
    }
}

impl From<&PathStep> for PathPart {
    fn from(step: &PathStep) -> PathPart {
        match step {
            PathStep::Index(index) => PathPart::Position(*index),
            PathStep::Key(key) => PathPart::Key(key.clone()),
        }
    }
}

fn read_path(path: Vec<PathPart>) -> JsonPath {
    path.into_iter().map(PathStep::from).collect()
}

fn write_path(path: &[PathStep]) -> Vec<PathPart> {
    path.iter().map(PathPart::from).collect()
}

/// A list of parts.
#[derive(Serialize, ToSchema)]
pub(crate) struct PartListInfo {
    /// `steps`, `nodes`, `edges`, `blocks`, `agents` or `elements`.
    name: &'static str,
    path: Vec<PathPart>,
}

/// A kind of part that can be added.
#[derive(Serialize, ToSchema)]
pub(crate) struct PartKindInfo {
    /// The list to which it is added.
    list: &'static str,
    name: String,
    /// A short description.
    meaning: String,
}

/// A part of a definition: a step, a node, a connection, a block, an agent or an action.
#[derive(Serialize, ToSchema)]
#[schema(as = Part)]
pub(crate) struct PartInfo {
    list: &'static str,
    path: Vec<PathPart>,
    /// Position of the part around it.
    parent: Option<usize>,
    kind: String,
    title: String,
    /// First byte in the source.
    start: usize,
    /// Length in the source, in bytes.
    length: usize,
    #[schema(value_type = serde_json::Value)]
    value: Value,
    /// The name of its form.
    form: String,
    /// The path of its step in a run; null if the definition does not compile, or if it is not a step.
    step: Option<String>,
}

/// A connection of two nodes.
#[derive(Serialize, ToSchema)]
#[schema(as = Link)]
pub(crate) struct LinkInfo {
    /// Position of the part that it leaves.
    from: usize,
    /// Position of the part that it enters; null is the end.
    to: Option<usize>,
    /// The condition under which it is taken.
    label: String,
    /// Position of the part that makes it; null if a reference makes it.
    part: Option<usize>,
}

/// A definition as parts with forms.
#[derive(Serialize, ToSchema)]
#[schema(as = Inspection)]
pub(crate) struct InspectionInfo {
    /// The format; null if it is not known.
    format: Option<String>,
    /// Why there are no parts to show; null if there are.
    problem: Option<String>,
    /// The way to the values of the whole definition.
    root: Vec<PathPart>,
    /// The values of the whole definition, without its parts.
    #[schema(value_type = serde_json::Value)]
    value: Value,
    /// Their form: a JSON Schema.
    form: serde_json::Value,
    lists: Vec<PartListInfo>,
    kinds: Vec<PartKindInfo>,
    parts: Vec<PartInfo>,
    links: Vec<LinkInfo>,
    /// The forms of parts, by name: JSON Schemas without references, in which `x-widget` says how a value is entered.
    #[schema(value_type = BTreeMap<String, serde_json::Value>)]
    forms: BTreeMap<String, serde_json::Value>,
}

/// A definition to inspect.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct InspectRequest {
    source: OpenSource,
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EditAction {
    /// Gives the value at `path` the content `value`; what is missing on the way is added
    Set,
    /// Removes the value at `path`, or a part with its connections
    Remove,
    /// Gives the key at the end of `path` the name `name`
    RenameKey,
    /// Gives the name that the value at `path` declares the text `name`, at all of its places
    Rename,
    /// Moves the part at `path` to the position `at` of its list
    Move,
    /// Adds a new part of the kind `kind` to `list`, at the position `at`
    Add,
    /// Adds a copy of the part at `path` after it
    Duplicate,
    /// Adds a part that was copied as `text` to `list`, at the position `at`
    Paste,
    /// Connects the node at `path` with the one at `target`; without a target, with the end
    Connect,
}

/// A change of a definition. Which fields it needs depends on what it does.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DefinitionEdit)]
pub(crate) struct EditRequest {
    #[serde(rename = "do")]
    action: EditAction,
    #[serde(default)]
    path: Option<Vec<PathPart>>,
    /// The new content; null if it is left out.
    #[serde(default)]
    #[schema(value_type = Option<serde_json::Value>)]
    value: Option<Value>,
    #[serde(default)]
    name: Option<String>,
    /// The name of a list, or the way to it.
    #[serde(default)]
    list: Option<Vec<PathPart>>,
    /// The position; the end by default.
    #[serde(default)]
    at: Option<usize>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    target: Option<Vec<PathPart>>,
}

impl EditRequest {
    /// The change. Fails with `RequestInvalid` if a field is missing.
    fn read(self) -> ApiResult<Edit> {
        fn require<T>(field: Option<T>, name: &str) -> ApiResult<T> {
            field.ok_or_else(|| Problem::new(Code::RequestInvalid, format!("this change needs the field {name:?}")))
        }
        let path = || require(self.path.map(read_path), "path");
        let list = || require(self.list.map(read_path), "list");
        let at = self.at.unwrap_or(usize::MAX);
        Ok(match self.action {
            EditAction::Set => Edit::Set { path: path()?, value: self.value.unwrap_or_default() },
            EditAction::Remove => Edit::Remove { path: path()? },
            EditAction::RenameKey => Edit::RenameKey { path: path()?, to: require(self.name, "name")? },
            EditAction::Rename => Edit::Rename { path: path()?, to: require(self.name, "name")? },
            EditAction::Move => Edit::Move { path: path()?, to: at },
            EditAction::Add => Edit::Add { list: list()?, at, kind: require(self.kind, "kind")? },
            EditAction::Duplicate => Edit::Duplicate { path: path()? },
            EditAction::Paste => Edit::Paste { list: list()?, at, text: require(self.text, "text")? },
            EditAction::Connect => Edit::Connect { from: path()?, to: self.target.map(read_path) },
        })
    }
}

/// Changes of a definition.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = EditDefinition)]
pub(crate) struct EditsRequest {
    source: OpenSource,
    /// The changes, which are applied one after another: at most 1000.
    edits: Vec<EditRequest>,
}

/// A definition that was changed.
#[derive(Serialize, ToSchema)]
pub(crate) struct EditedDefinition {
    /// The new text of the entry.
    text: String,
    /// The part that was added or moved last.
    part: Option<Vec<PathPart>>,
    /// The parts of the new text.
    #[schema(value_type = InspectionInfo)]
    inspection: InspectionInfo,
}

/// Shows a definition as parts with values and forms. Nothing is stored.
#[utoipa::path(post, path = "/api/v1/definitions/inspect", tag = "workflows", operation_id = "inspect_definition", security(("key" = ["read"])), params(OwnerQuery),
    request_body = InspectRequest,
    responses((status = 200, body = InspectionInfo), (status = 400, body = ProblemDocument)))]
pub(crate) async fn inspect_open_definition(
    State(catalog): State<Arc<Catalog>>,
    caller: Caller,
    QueryParams(whose): QueryParams<OwnerQuery>,
    JsonObject(asked, _): JsonObject<InspectRequest>,
) -> ApiResult<Response> {
    caller.require_scope(Scope::Read)?;
    let user = caller.resolve_user(whose.user)?;
    let inspect = move |stop: &StopFlag| {
        let opened = asked.source.open()?;
        let compiled = opened.compile(&catalog, &user, stop)?;
        let blocks = list_blocks(&catalog, &user, opened.format, compiled.source.files())?;
        Ok::<_, Problem>(inspect_text(&catalog, &opened, &blocks, compiled.source.compiled.plan.as_ref()))
    };
    compile_to_json(inspect).await
}

/// Changes the text of a definition as forms do: comments, order and layout stay. Nothing is stored.
#[utoipa::path(post, path = "/api/v1/definitions/edit", tag = "workflows", operation_id = "edit_definition", security(("key" = ["read"])), params(OwnerQuery),
    request_body = EditsRequest,
    responses((status = 200, body = EditedDefinition),
        (status = 400, description = "The changes cannot be made", body = ProblemDocument),
        (status = 422, description = "The format is not known", body = ProblemDocument)))]
pub(crate) async fn edit_open_definition(
    State(catalog): State<Arc<Catalog>>,
    caller: Caller,
    QueryParams(whose): QueryParams<OwnerQuery>,
    JsonObject(asked, _): JsonObject<EditsRequest>,
) -> ApiResult<Response> {
    caller.require_scope(Scope::Read)?;
    let user = caller.resolve_user(whose.user)?;
    if asked.edits.len() > MAX_EDITS {
        return Err(Problem::new(Code::RequestInvalid, format!("there are more than {MAX_EDITS} changes")));
    }
    let change = move |stop: &StopFlag| {
        let mut opened = asked.source.open()?;
        let edits: Vec<Edit> = asked.edits.into_iter().map(EditRequest::read).collect::<ApiResult<_>>()?;
        let compiled = opened.compile(&catalog, &user, stop)?;
        let blocks = list_blocks(&catalog, &user, opened.format, compiled.source.files())?;
        let (mut part, mut read_bytes) = (None, 0);
        for edit in edits {
            read_bytes += opened.text().len();
            if read_bytes > MAX_EDITED_BYTES || opened.text().len() as u64 > catalog.config().limits.source_bytes {
                let message = "the definition is too large for so many changes in one request";
                return Err(Problem::new(Code::RequestInvalid, message));
            }
            check_time(stop)?;
            let edit = std::slice::from_ref(&edit);
            let edited = with_env(&catalog, &opened, &blocks, |env| apply_edits(env, opened.text(), edit));
            let edited = edited
                .ok_or_else(|| Problem::new(Code::UnknownFormat, "the format of this text is not known"))?
                .map_err(|error| Problem::new(Code::RequestInvalid, error.to_string()))?;
            part = edited.part.or(part);
            opened.content.files.insert(opened.content.entry.clone(), edited.text);
        }
        let plan = opened.compile(&catalog, &user, stop)?.source.compiled.plan;
        let inspection = inspect_text(&catalog, &opened, &blocks, plan.as_ref());
        let text = opened.text().to_owned();
        Ok(EditedDefinition { text, part: part.as_deref().map(write_path), inspection })
    };
    compile_to_json(change).await
}

/// The blocks that nodes of a pipeline can use besides built-in ones: those of its files, then those that are stored.
fn list_blocks(
    catalog: &Catalog,
    user: &str,
    format: Option<Format>,
    files: &BTreeMap<String, Vec<u8>>,
) -> ApiResult<Vec<Value>> {
    if format != Some(pipeline::FORMAT) {
        return Ok(Vec::new());
    }
    let is_block = |path: &str| path.contains(pipeline::BLOCKS_FOLDER) && path.ends_with(".json");
    let read = |bytes: &[u8]| parse_value(&String::from_utf8_lossy(bytes)).ok();
    let own = files.iter().filter(|(path, _)| is_block(path)).filter_map(|(_, bytes)| read(bytes));
    Ok(own.chain(catalog.blocks().list_stored(user)?).collect())
}

/// Calls a function with what changes are made in; `None` if the format is not known.
fn with_env<T>(
    catalog: &Catalog,
    opened: &OpenDefinition,
    blocks: &[Value],
    work: impl FnOnce(EditEnv<'_>) -> T,
) -> Option<T> {
    let model = catalog.config().default_model.value.as_deref().unwrap_or("provider:model");
    Some(work(EditEnv { format: opened.format?, file: &opened.content.entry, blocks, model }))
}

fn inspect_text(catalog: &Catalog, opened: &OpenDefinition, blocks: &[Value], plan: Option<&Plan>) -> InspectionInfo {
    let inspection = with_env(catalog, opened, blocks, |env| inspect_definition(env, opened.text()));
    let inspection = inspection.unwrap_or_else(|| Inspection {
        problem: Some("the format of this text is not known".to_owned()),
        ..Inspection::default()
    });
    let steps = find_steps(&inspection.parts, plan);
    let parts = inspection.parts.into_iter().zip(steps).map(|(part, step)| write_part(part, step));
    InspectionInfo {
        format: opened.format.map(|format| format.to_string()),
        problem: inspection.problem,
        root: write_path(&inspection.root),
        value: inspection.value,
        form: inspection.form,
        lists: inspection
            .lists
            .iter()
            .map(|list| PartListInfo { name: list.name, path: write_path(&list.path) })
            .collect(),
        kinds: inspection
            .kinds
            .into_iter()
            .map(|kind| PartKindInfo { list: kind.list, name: kind.name, meaning: kind.meaning })
            .collect(),
        parts: parts.collect(),
        links: inspection.links.into_iter().map(write_link).collect(),
        forms: inspection.forms,
    }
}

/// The path of the step of each part: that of the first step that begins in its place.
fn find_steps(parts: &[Part], plan: Option<&Plan>) -> Vec<Option<String>> {
    let outline = plan.map(outline_plan);
    let mut starts: Vec<(usize, usize, String)> = Vec::new();
    for node in outline.iter().flat_map(|outline| &outline.nodes) {
        if let Some(span) = node.span {
            starts.push((span.start, usize::MAX - span.length, node.path.to_string()));
        }
    }
    // Of the steps that begin at the same place, the longest one is the part itself.
    starts.sort();
    let find = |part: &Part| {
        let first = starts.partition_point(|(start, ..)| *start < part.span.start);
        starts.get(first).filter(|(start, ..)| *start < part.span.end()).map(|(.., path)| path.clone())
    };
    parts.iter().map(find).collect()
}

fn write_part(part: Part, step: Option<String>) -> PartInfo {
    PartInfo {
        list: part.list,
        path: write_path(&part.path),
        parent: part.parent,
        kind: part.kind,
        title: part.title,
        start: part.span.start,
        length: part.span.length,
        value: part.value,
        form: part.form,
        step,
    }
}

fn write_link(link: Link) -> LinkInfo {
    LinkInfo { from: link.from, to: link.to, label: link.label, part: link.part }
}
