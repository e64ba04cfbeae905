//! `POST /api/v1/diff`: two definitions compared by what they mean, like `flowloom diff`.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use flowloom_app::definitions::catalog::Catalog;
use flowloom_app::definitions::versions::{VersionName, read_version};
use flowloom_app::diff::FieldChange;
use flowloom_app::diff::definitions::{InputChange, StepChange, compare_plans, find_active};
use flowloom_app::keys::Scope;
use flowloom_core::code::Code;
use flowloom_core::plan::Plan;
use flowloom_formats::StopFlag;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::opened::{OpenDefinition, OpenSource};
use crate::blocking::compile_to_json;
use crate::body::JsonObject;
use crate::caller::Caller;
use crate::definitions::change::OwnerQuery;
use crate::params::QueryParams;
use crate::problem::{ApiResult, Problem, ProblemDocument};

/// Two definitions.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DiffRequest {
    a: DiffSide,
    b: DiffSide,
}

/// A workflow, a version of it, or a definition that is not stored.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DiffSide {
    /// Id of the workflow.
    #[serde(default)]
    workflow: Option<String>,
    /// Number of a stored version [default: what is current].
    #[serde(default)]
    version: Option<u32>,
    /// The definition, if it is not stored.
    #[serde(default)]
    source: Option<OpenSource>,
}

/// The differences between two definitions.
#[derive(Serialize, ToSchema)]
pub(crate) struct DefinitionDifferences {
    /// Whether they mean the same.
    same: bool,
    /// Differences of the definitions as a whole.
    fields: Vec<FieldDifference>,
    /// Inputs that differ.
    inputs: Vec<InputDifference>,
    /// Steps that differ, in the order of the second definition; removed steps come last.
    steps: Vec<StepDifference>,
}

/// A text that differs.
#[derive(Serialize, ToSchema)]
pub(crate) struct FieldDifference {
    /// The name of the field, for example `input` or `model`.
    name: &'static str,
    before: Option<String>,
    after: Option<String>,
}

/// An input that differs.
#[derive(Serialize, ToSchema)]
pub(crate) struct InputDifference {
    name: String,
    fields: Vec<FieldDifference>,
}

/// A step that differs.
#[derive(Serialize, ToSchema)]
pub(crate) struct StepDifference {
    /// `added` or `removed`, or some of `changed`, `moved` and `renamed`.
    changes: Vec<&'static str>,
    /// The kind of the step.
    kind: &'static str,
    /// Its path in the first definition.
    a: Option<String>,
    /// Its path in the second definition.
    b: Option<String>,
    fields: Vec<FieldDifference>,
}

/// Compares two definitions by what they mean, also between formats: their steps are aligned, and order and layout of their
/// texts do not count.
#[utoipa::path(post, path = "/api/v1/diff", tag = "workflows", operation_id = "compare_workflows", security(("key" = ["read"])), params(OwnerQuery),
    request_body = DiffRequest,
    responses((status = 200, description = "The differences", body = DefinitionDifferences), (status = 400, body = ProblemDocument), (status = 404, description = "A workflow or a version does not exist", body = ProblemDocument),
        (status = 422, description = "One of them has errors", body = ProblemDocument)))]
pub(crate) async fn compare_workflows(
    State(catalog): State<Arc<Catalog>>,
    caller: Caller,
    QueryParams(whose): QueryParams<OwnerQuery>,
    JsonObject(asked, _): JsonObject<DiffRequest>,
) -> ApiResult<Response> {
    caller.require_scope(Scope::Read)?;
    let user = caller.resolve_user(whose.user)?;
    let compare = move |stop: &StopFlag| {
        let a = asked.a.compile_side(&catalog, &user, stop)?;
        let b = asked.b.compile_side(&catalog, &user, stop)?;
        // The functions of both are those of this server.
        let diff = compare_plans(&a.plan, &b.plan).with_active(a.is_active, b.is_active);
        Ok::<_, Problem>(DefinitionDifferences {
            same: diff.same,
            fields: describe_fields(diff.fields),
            inputs: diff.inputs.into_iter().map(describe_input).collect(),
            steps: diff.steps.into_iter().map(describe_step).collect(),
        })
    };
    compile_to_json(compare).await
}

/// A side that was compiled.
struct CompiledSide {
    plan: Plan,
    /// Whether agents may call it, if its format has a switch for that.
    is_active: Option<bool>,
}

impl DiffSide {
    fn compile_side(self, catalog: &Catalog, user: &str, stop: &StopFlag) -> Result<CompiledSide, Problem> {
        let name = self.describe_name();
        let opened = match (self.workflow, self.version, self.source) {
            (None, None, Some(source)) => source.open()?,
            (Some(id), version, None) => {
                let content = match version {
                    Some(version) => {
                        Some(read_version(catalog.store(), user, &VersionName { id: id.clone(), version })?)
                    }
                    None => catalog.read_source(user, &id, None)?,
                };
                let content = content.ok_or_else(|| Problem::not_found("workflow", &id))?;
                OpenDefinition { format: content.format, content }
            }
            _ => {
                let message = "each side is a \"workflow\", possibly with a \"version\", or a \"source\"";
                return Err(Problem::new(Code::RequestInvalid, message));
            }
        };
        let source = opened.compile(catalog, user, stop)?.source;
        let refused = || Problem::new(Code::StepRefused, format!("{name} has errors, so it cannot be compared"));
        let plan = source.compiled.plan.clone().ok_or_else(refused)?;
        Ok(CompiledSide { is_active: find_active(plan.format, source.bytes()), plan })
    }

    fn describe_name(&self) -> String {
        match (&self.workflow, self.version) {
            (Some(id), Some(version)) => format!("version {version} of {id}"),
            (Some(id), None) => id.clone(),
            (None, _) => "the definition".to_owned(),
        }
    }
}

fn describe_fields(fields: Vec<FieldChange>) -> Vec<FieldDifference> {
    let field = |field: FieldChange| FieldDifference { name: field.name, before: field.before, after: field.after };
    fields.into_iter().map(field).collect()
}

fn describe_input(input: InputChange) -> InputDifference {
    InputDifference { name: input.name, fields: describe_fields(input.fields) }
}

fn describe_step(step: StepChange) -> StepDifference {
    StepDifference {
        changes: step.changes,
        kind: step.kind,
        a: step.a.map(|path| path.to_string()),
        b: step.b.map(|path| path.to_string()),
        fields: describe_fields(step.fields),
    }
}
