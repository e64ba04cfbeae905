//! `POST /api/v1/convert`: converts a definition like `flowloom convert`, without storing it.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use flowloom_app::config::Config;
use flowloom_app::definitions::convert::{ConversionOptions, convert_loaded};
use flowloom_app::definitions::source::{Loader, parse_format};
use flowloom_app::definitions::stored::{self, DefinitionContent};
use flowloom_app::error::AppError;
use flowloom_app::keys::Scope;
use flowloom_convert::Fate;
use flowloom_core::code::Code;
use flowloom_formats::StopFlag;
use flowloom_store::Store;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::blocking::compile_to_json;
use crate::body::JsonBody;
use crate::caller::Caller;
use crate::definitions::change::OwnerQuery;
use crate::params::QueryParams;
use crate::problem::{ApiResult, Problem, ProblemDocument};

/// A definition to convert: its text, or its files.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConvertRequest {
    /// The format of the result.
    to: String,
    /// The format of the definition; detected by default.
    #[serde(default)]
    format: Option<String>,
    /// The text of a definition in one file.
    #[serde(default)]
    source: Option<String>,
    /// The path of the definition among the files.
    #[serde(default)]
    entry: Option<String>,
    /// The files of a definition in several files.
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// Whether losses are refused: there is no text then.
    #[serde(default)]
    strict: bool,
}

/// The outcome of a construct in a conversion.
#[derive(Serialize, ToSchema)]
pub(crate) struct ConversionFinding {
    /// `kept`, `differently` or `lost`.
    fate: String,
    /// The kind of a construct that is kept, such as `model call`; empty of others.
    construct: String,
    /// Line, from 1.
    line: u64,
    /// Column, from 1.
    column: u64,
    /// First byte of the place.
    start: u64,
    /// Length of the place, in bytes.
    length: u64,
    /// The construct, and how it is expressed or why it is lost.
    message: String,
}

/// A converted definition.
#[derive(Serialize, ToSchema)]
pub(crate) struct ConvertResult {
    /// Format of the definition; null if it is unknown.
    format: Option<String>,
    /// The definition in the other format; null if it does not compile, if that format has nothing for it, or if losses
    /// are refused.
    text: Option<String>,
    /// Number of constructs that are kept.
    kept: usize,
    /// The same by kind of construct, such as `model call`.
    kept_by_kind: BTreeMap<&'static str, usize>,
    /// Number of constructs that are expressed differently.
    differently: usize,
    /// Number of constructs that are lost.
    lost: usize,
    /// Number of constructs that are not in `findings`.
    omitted: usize,
    /// The outcome of each construct, in source order: at most 200, lost ones before others.
    findings: Vec<ConversionFinding>,
    /// The diagnostics of a definition that does not compile, or what is not kept.
    #[schema(value_type = Vec<crate::openapi_types::DiagnosticSchema>)]
    problems: Vec<serde_json::Value>,
}

/// Converts a definition to another format without running or storing it, and reports what is lost.
#[utoipa::path(post, path = "/api/v1/convert", tag = "workflows", operation_id = "convert_definition", security(("key" = ["read"])), params(OwnerQuery),
    request_body = ConvertRequest,
    responses((status = 200, body = ConvertResult), (status = 400, body = ProblemDocument)))]
pub(crate) async fn convert_definition(
    State(config): State<Arc<Config>>,
    State(store): State<Arc<Store>>,
    caller: Caller,
    QueryParams(whose): QueryParams<OwnerQuery>,
    JsonBody(asked): JsonBody<ConvertRequest>,
) -> ApiResult<Response> {
    caller.require_scope(Scope::Read)?;
    let user = caller.resolve_user(whose.user)?;
    let invalid = |message: &str| Problem::new(Code::RequestInvalid, message);
    let read_format = |name: &str| match parse_format(Some(name)) {
        Ok(Some(format)) => Ok(format),
        Ok(None) => Err(invalid("name a format")),
        Err(error) => Err(invalid(&error.to_string())),
    };
    let to = read_format(&asked.to)?;
    let format = asked.format.as_deref().map(read_format).transpose()?;
    let content = read_content(asked.source, asked.entry, asked.files).map_err(invalid)?;
    content.validate()?;
    let options = ConversionOptions { to, is_strict: asked.strict, has_comments: false };
    let convert = move |stop: &StopFlag| {
        let loader = Loader { stop: Some(stop), format, ..Loader::new(&config) };
        let compiled = stored::compile_for_user(&store, &loader, &user, &content)?;
        Ok::<_, AppError>(match convert_loaded(compiled.source, options, &loader) {
            Ok(converted) => ConvertResult {
                format: converted.source.compiled.format.map(|format| format.to_string()),
                kept: converted.count(Fate::Kept),
                kept_by_kind: converted.count_kept_by_kind(),
                differently: converted.count(Fate::Differently),
                lost: converted.count(Fate::Lost),
                omitted: converted.count_omitted(),
                findings: converted.describe_findings().into_iter().map(read_finding).collect(),
                problems: converted.source.problems(),
                text: converted.text,
            },
            Err(source) => ConvertResult {
                format: source.compiled.format.map(|format| format.to_string()),
                text: None,
                kept: 0,
                kept_by_kind: BTreeMap::new(),
                differently: 0,
                lost: 0,
                omitted: 0,
                findings: Vec::new(),
                problems: source.problems(),
            },
        })
    };
    compile_to_json(convert).await
}

fn read_content(
    source: Option<String>,
    entry: Option<String>,
    files: BTreeMap<String, String>,
) -> Result<DefinitionContent, &'static str> {
    match (source, entry) {
        (Some(text), None) if files.is_empty() => {
            let is_json = text.trim_start_matches('\u{feff}').trim_start().starts_with(['{', '[']);
            Ok(DefinitionContent::single(if is_json { "definition.json" } else { "definition.mdx" }, text))
        }
        (None, Some(entry)) if files.contains_key(&entry) => Ok(DefinitionContent { entry, files, format: None }),
        _ => Err("give the definition as \"source\", or as \"files\" and the \"entry\" among them"),
    }
}

fn read_finding(value: serde_json::Value) -> ConversionFinding {
    let number = |key: &str| value[key].as_u64().unwrap_or_default();
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    ConversionFinding {
        fate: text("fate"),
        construct: text("construct"),
        line: number("line"),
        column: number("column"),
        start: number("start"),
        length: number("length"),
        message: text("message"),
    }
}
