//! Runs and definitions as the routes of other systems share them.

use std::sync::Arc;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use flowloom_app::definitions::catalog::Catalog;
use flowloom_app::definitions::catalog::CatalogEntry;
use flowloom_app::definitions::stored::DefinitionContent;
use flowloom_app::error::AppError;
use flowloom_app::runs::service::StartRunRequest;
use flowloom_app::runs::stored::{LoadedRun, StoredRuns};
use flowloom_app::runs::supervisor::ActiveRun;
use flowloom_core::event::Record;
use flowloom_core::id::RunId;
use flowloom_core::plan::{Format, Plan};
use flowloom_core::state::RunState;
use flowloom_core::value::{Map, Value};
use flowloom_formats::{RenderedResult, render_result};

use crate::blocking::run_blocking;
use crate::bounded_list::BoundedList;
use crate::problem::ApiResult;
use crate::runs::answer::{MAX_WAIT, name_started_run, read_run};
use crate::runs::start::{StartContext, report_unknown};

/// The state of a run after waiting for it.
pub(crate) struct CompatRun {
    pub(crate) id: RunId,
    /// The text of the run's definition.
    pub(crate) definition: String,
    pub(crate) plan: Arc<Plan>,
    pub(crate) state: RunState,
    /// The events of the run, in order.
    pub(crate) records: Vec<Arc<Record>>,
    pub(crate) presented: RenderedResult,
}

impl CompatRun {
    /// A response with `entries`, whose HTTP status reflects the status of the run.
    pub(crate) fn to_response(&self, entries: Map) -> Response {
        let status = StatusCode::from_u16(self.state.status.table_row().http_status).unwrap_or(StatusCode::OK);
        (status, Json(Value::from(entries))).into_response()
    }

    /// The result in the original system's form.
    pub(crate) fn to_result(&self) -> Map {
        self.presented.result.as_map().cloned().unwrap_or_default()
    }
}

/// Runs a definition and waits for its end, at most as long as a request may wait; clients of these routes do not poll.
/// `request` identifies the request under its Idempotency-Key.
pub(crate) async fn run_and_wait(
    call: &StartContext<'_>,
    definition: &CatalogEntry,
    starting: StartRunRequest,
    request: &str,
) -> ApiResult<CompatRun> {
    let request = describe_start(&definition.id, request);
    let active = call
        .start_once(&request, async |id| call.start_run(definition, StartRunRequest { id, ..starting }).await)
        .await?;
    wait_for_end(call, active).await
}

/// What requests with the same Idempotency-Key must have in common: the definition, and the body.
pub(crate) fn describe_start(definition: &str, body: &str) -> String {
    format!("{definition}\n{body}")
}

/// Waits for the end of a run, at most as long as a request may wait.
pub(crate) async fn wait_for_end(call: &StartContext<'_>, active: ActiveRun) -> ApiResult<CompatRun> {
    let completion = active.completion;
    call.host.service.wait_with_timeout(active.id, completion.clone(), MAX_WAIT).await;
    name_started_run(call.host, active.id, completion.as_ref(), read_snapshot(&call.host.app.runs, active.id).await)
}

/// Reads the state of a run.
pub(crate) async fn read_snapshot(runs: &StoredRuns, id: RunId) -> ApiResult<CompatRun> {
    read_run(runs, id, async |runs: &StoredRuns, opened: LoadedRun| load_snapshot(runs, opened).await).await
}

/// The state of a run that was opened.
pub(crate) async fn load_snapshot(runs: &StoredRuns, opened: LoadedRun) -> ApiResult<CompatRun> {
    let past = flowloom_app::runs::finished::read_outcome(runs, &opened).await?;
    let presented = render_result(&opened.plan, &past.state, &past.env);
    let (id, definition) = (opened.id, opened.definition().to_owned());
    Ok(CompatRun { id, definition, plan: opened.plan, state: past.state, records: past.records, presented })
}

/// All definitions of one format available to a user.
pub(crate) async fn list_definitions(
    catalog: &Arc<Catalog>,
    user: String,
    format: Format,
) -> ApiResult<Vec<Arc<CatalogEntry>>> {
    let catalog = catalog.clone();
    let mut found = run_blocking(move || catalog.list_definitions(&user)).await??;
    found.retain(|definition| definition.format == format);
    Ok(found)
}

/// A list of definitions. Their sources are read one at a time.
pub(crate) async fn build_list(
    catalog: &Arc<Catalog>,
    definitions: Vec<Arc<CatalogEntry>>,
    build_item: impl Fn(&CatalogEntry, &DefinitionContent) -> Result<Option<Value>, AppError> + Send + 'static,
) -> ApiResult<BoundedList> {
    let catalog = catalog.clone();
    let build = move || {
        let mut list = BoundedList::with_count(definitions.len());
        for definition in definitions {
            if let Some(item) = build_item(&definition, &catalog.read_content(&definition)?)? {
                list.push_value(&item);
            }
        }
        Ok(list)
    };
    run_blocking(build).await?
}

/// A definition of one format with its source. Fails with `NotThere`.
pub(crate) async fn find_definition(
    catalog: &Arc<Catalog>,
    user: String,
    format: Format,
    id: &str,
) -> ApiResult<(Arc<CatalogEntry>, DefinitionContent)> {
    let (finding, owner, wanted) = (catalog.clone(), user.clone(), id.to_owned());
    let found = run_blocking(move || {
        let found = finding.find_definition(&owner, &wanted)?.filter(|definition| definition.format == format);
        found.map(|definition| Ok((definition.clone(), finding.read_content(&definition)?))).transpose()
    });
    let found: Result<_, AppError> = found.await?;
    if let Some(found) = found? {
        return Ok(found);
    }
    Err(report_unknown(catalog, &user, id, Some(format)).await?)
}

/// Returns the id in `map`; inserts a new one if there is none.
pub(crate) fn ensure_id(map: &mut Map) -> String {
    if let Some(id) = map.get("id").and_then(Value::as_str).filter(|id| !id.is_empty()) {
        return id.to_owned();
    }
    let id = uuid::Uuid::new_v4().to_string();
    map.insert("id".into(), id.as_str().into());
    id
}
