//! Starts runs: `POST /api/v1/runs`, and the functions shared by all routes that start runs.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use flowloom_app::definitions::catalog::{Catalog, CatalogEntry};
use flowloom_app::error::AppError;
use flowloom_app::keys::Scope;
use flowloom_app::runs::retry::parse_step_path;
use flowloom_app::runs::service::{StartCall, StartRunRequest};
use flowloom_app::runs::supervisor::ActiveRun;
use flowloom_app::runs::trigger::TriggerKind;
use flowloom_core::code::Code;
use flowloom_core::diagnostic::find_similar_name;
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::plan::Format;
use flowloom_core::trace::TraceContext;
use flowloom_core::trigger::RunTrigger;
use flowloom_core::value::Value;
use serde::Deserialize;
use utoipa::ToSchema;

use super::answer::{WaitQuery, accepts_events, respond_with_run};
use super::run_schema::RunSchema;
use crate::blocking::{accept_request, run_blocking};
use crate::body::JsonObject;
use crate::caller::Caller;
use crate::params::QueryParams;
use crate::problem::{ApiResult, Problem};
use crate::state::RunHost;

/// A value that is given, even if it is null.
fn read_given<'de, D: serde::Deserializer<'de>>(given: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(given).map(Some)
}

/// A run to start.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewRun)]
pub(crate) struct RunRequest {
    /// Id of the workflow.
    workflow: String,
    /// Inputs by name; step lists accept any value.
    #[serde(default, deserialize_with = "read_given")]
    #[schema(value_type = serde_json::Value)]
    inputs: Option<Value>,
    /// The agent as which the run acts.
    #[serde(default)]
    agent: Option<String>,
    /// User who owns the run, if the key does not determine it.
    #[serde(default)]
    user: Option<String>,
    /// Limits of the run: `tokens=2000,usd=0.05,steps=100,time=30s`.
    #[serde(default)]
    budget: Option<String>,
    /// Path of the only step that runs. The inputs are the variables that it reads.
    #[serde(default)]
    step: Option<String>,
}

/// Starts a run. With `Accept: text/event-stream`, the response streams the run's events.
#[utoipa::path(post, path = "/api/v1/runs", tag = "runs", operation_id = "start_run", request_body = RunRequest, params(WaitQuery,
    ("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body start a single run"),
    ("Last-Event-ID" = Option<u64>, Header, description = "For a stream that is repeated with its Idempotency-Key: number of the last event that the client has")),
    security(("key" = ["run"])),
    responses((status = 200, description = "The run has ended", content((RunSchema = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "The run is still running or waiting", body = RunSchema),
        (status = 404, description = "The workflow or the step does not exist"),
        (status = 409, description = "The outcome of the run is uncertain, or the Idempotency-Key was used for another request")))]
pub(crate) async fn post_run(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    QueryParams(waiting): QueryParams<WaitQuery>,
    headers: HeaderMap,
    JsonObject(new, text): JsonObject<RunRequest>,
) -> ApiResult<Response> {
    let call = StartContext::admit_caller(&host, &caller, new.user.clone(), &headers)?;
    let step = new.step.as_deref().map(read_step_path).transpose()?;
    let run = call.start_once(&text, async |id| {
        let definition = call.find_definition(&new.workflow).await?;
        let RunRequest { agent, budget, inputs, .. } = new;
        let inputs = inputs.unwrap_or_else(|| definition.no_inputs());
        definition.check_names(&inputs)?;
        let starting = StartRunRequest {
            agent,
            budget,
            step,
            has_key: caller.key.is_some(),
            ..StartRunRequest::with_inputs(inputs)
        };
        call.start_run(&definition, StartRunRequest { id, ..starting }).await
    });
    respond_with_run(&host, run.await?, waiting, &headers).await
}

/// The path of a step that a request names.
pub(crate) fn read_step_path(text: &str) -> ApiResult<Path> {
    parse_step_path(text)
        .ok_or_else(|| Problem::new(Code::RequestInvalid, format!("{text:?} is not the path of a step")))
}

/// A call of a route, a schedule or a tool that starts a run.
pub(crate) struct StartContext<'a> {
    pub(crate) host: &'a Arc<RunHost>,
    pub(crate) start: StartCall,
}

impl<'a> StartContext<'a> {
    /// The call of a caller who may start a run now, for themselves or for `user`.
    pub(crate) fn admit_caller(
        host: &'a Arc<RunHost>,
        caller: &Caller,
        user: Option<String>,
        headers: &HeaderMap,
    ) -> ApiResult<StartContext<'a>> {
        caller.require_scope(Scope::Run)?;
        let (user, needs_events) = (caller.resolve_user(user)?, accepts_events(headers));
        let idempotency_key = idempotency_key(headers)?;
        let place = Some(Arc::new(host.supervisor.reserve_place(&user)?));
        accept_request();
        let trigger = TriggerKind::Api.to_trigger();
        Ok(StartContext {
            host,
            start: StartCall { place, user, idempotency_key, needs_events, trace: read_trace(headers), trigger },
        })
    }

    /// A start by this process on behalf of `user`, because of `trigger`.
    pub(crate) fn for_user(host: &'a Arc<RunHost>, user: &str, trigger: RunTrigger) -> StartContext<'a> {
        StartContext { host, start: StartCall::for_user(user, trigger) }
    }

    /// The same through another interface than Flowloom's own API.
    pub(crate) fn with_interface(mut self, interface: TriggerKind) -> StartContext<'a> {
        self.start.trigger = interface.to_trigger();
        self
    }

    /// The same under an idempotency key.
    pub(crate) fn with_key(mut self, key: Option<String>) -> StartContext<'a> {
        self.start.idempotency_key = key;
        self
    }

    /// The user whose run it is.
    pub(crate) fn user(&self) -> &str {
        &self.start.user
    }

    /// Starts one run for all calls with the same idempotency key and the same `request`. See
    /// [`start_once`](flowloom_app::runs::service::RunService::start_once).
    pub(crate) async fn start_once(
        &self,
        request: &str,
        begin: impl AsyncFnOnce(Option<RunId>) -> ApiResult<ActiveRun>,
    ) -> ApiResult<ActiveRun> {
        self.host.service.start_once(&self.start, request, begin).await
    }

    /// The definition to run; see [`find_definition`].
    pub(crate) async fn find_definition(&self, id: &str) -> ApiResult<Arc<CatalogEntry>> {
        find_definition(self.host, &self.start.user, id).await
    }

    /// Starts a run of a definition. Fails with `StepRefused` if it has errors.
    pub(crate) async fn start_run(&self, definition: &CatalogEntry, new: StartRunRequest) -> ApiResult<ActiveRun> {
        Ok(self.host.service.start_run(&self.start, definition, new).await?)
    }
}

/// Finds a definition that a user can run. Fails with `NotThere`, and names the one that may be meant.
pub(crate) async fn find_definition(host: &Arc<RunHost>, user: &str, id: &str) -> ApiResult<Arc<CatalogEntry>> {
    if let Some(found) = look_up_definition(host, user, id).await? {
        return Ok(found);
    }
    Err(report_unknown(&host.catalog, user, id, None).await?)
}

/// The problem that a user has no workflow `id`, of this format if one is given.
pub(crate) async fn report_unknown(
    catalog: &Arc<Catalog>,
    user: &str,
    id: &str,
    format: Option<Format>,
) -> ApiResult<Problem> {
    let noun = format.as_ref().map_or_else(|| "workflow".to_owned(), |format| format.name().to_owned());
    let advice = advise_similar(catalog, user, id, format).await?;
    Ok(Problem::new(Code::NotThere, format!("there is no {noun} {id}{advice}")))
}

/// The definition called `id` that counts for a user.
pub(crate) async fn look_up_definition(
    host: &Arc<RunHost>,
    user: &str,
    id: &str,
) -> ApiResult<Option<Arc<CatalogEntry>>> {
    if let Some(at_hand) = host.catalog.find_compiled_file(id) {
        return Ok(Some(at_hand));
    }
    let (catalog, user, id) = (host.catalog.clone(), user.to_owned(), id.to_owned());
    Ok(run_blocking(move || catalog.find_definition(&user, &id)).await??)
}

/// The end of a message that there is no workflow `id`: the user's workflow, of this format if one is given, that may be
/// meant. Empty if none is similar.
pub(crate) async fn advise_similar(
    catalog: &Arc<Catalog>,
    user: &str,
    id: &str,
    format: Option<Format>,
) -> ApiResult<String> {
    let (catalog, user, wanted) = (catalog.clone(), user.to_owned(), id.to_owned());
    let found = run_blocking(move || {
        let all = catalog.list_definitions(&user)?;
        let known = all.iter().filter(|definition| format.as_ref().is_none_or(|format| definition.format == *format));
        let meant = find_similar_name(&wanted, known.map(|definition| definition.id.as_str()));
        Ok::<_, AppError>(meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default())
    });
    Ok(found.await??)
}

/// The trace of a request.
fn read_trace(headers: &HeaderMap) -> Option<TraceContext> {
    TraceContext::parse(headers.get("traceparent")?.to_str().ok()?)
}

/// Maximum length of an idempotency key or the name of a delivery, in characters.
const MAX_KEY_LENGTH: usize = 255;

/// The idempotency key that a request names. Fails with `RequestInvalid` if it is empty, since all requests with an empty
/// key would be one.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> ApiResult<Option<String>> {
    let key = headers.get("idempotency-key").map(header_text);
    if key.as_deref() == Some("") {
        return Err(Problem::new(
            Code::RequestInvalid,
            "the header Idempotency-Key is empty; give it a value or leave it out",
        ));
    }
    key.as_deref().map_or(Ok(()), check_key_length)?;
    Ok(key)
}

/// Fails with `RequestInvalid` if a key under which a call is stored is too long.
pub(crate) fn check_key_length(key: &str) -> ApiResult<()> {
    match key.chars().count() {
        0..=MAX_KEY_LENGTH => Ok(()),
        length => {
            let message = format!("the key of the call has {length} characters; at most {MAX_KEY_LENGTH} are allowed");
            Err(Problem::new(Code::RequestInvalid, message))
        }
    }
}

/// The value of a header as text, with a character for each byte, so that different values have different texts.
pub(crate) fn header_text(value: &HeaderValue) -> String {
    value.as_bytes().iter().map(|byte| char::from(*byte)).collect()
}
