//! Exports finished runs as OpenTelemetry traces over OTLP/HTTP. Disabled unless a URL is configured.
//!
//! The names of spans and attributes follow the semantic conventions for generative AI and HTTP; the former are not stable
//! yet, and are used only in this file. Nothing that a person or a model wrote is exported.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flowloom_core::effect::{FinishReason, failed_status};
use flowloom_core::error::StepFailure;
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::state::{Phase, RunState, StepState};
use flowloom_core::status::Status as RunStatus;
use flowloom_core::trace::TraceContext;
use opentelemetry::trace::{Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{Array, InstrumentationScope, KeyValue, StringValue, Value as OtelValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use tokio::sync::{mpsc, oneshot};

use crate::config::error::ConfigError;

/// Maximum number of queued runs; further runs are dropped, so that a slow collector does not slow down runs.
const MAX_QUEUED_RUNS: usize = 1024;

/// Maximum number of spans per export.
const MAX_BATCH_SPANS: usize = 2048;

/// The status of a response that the record does not contain.
const DEFAULT_STATUS: u16 = 200;

/// Time-out of an export.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the end of a process waits for its last traces.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Handle of the exporter.
#[derive(Clone)]
pub struct TraceExporter {
    queue: mpsc::Sender<QueuedTraces>,
    /// Number of runs that were not exported since that was last reported.
    dropped_runs: Arc<AtomicU64>,
}

/// An entry of the queue.
enum QueuedTraces {
    /// The spans of a run.
    Spans(Vec<SpanData>),
    /// Is answered when everything before it has been exported.
    Flush(oneshot::Sender<()>),
}

impl TraceExporter {
    /// Starts exporting to the collector at `address`, for example `http://localhost:4318`. Fails if the address is
    /// invalid.
    pub fn start(address: &str) -> Result<TraceExporter, ConfigError> {
        let endpoint = format!("{}/v1/traces", address.trim_end_matches('/'));
        let exporter = SpanExporter::builder().with_http().with_endpoint(endpoint).with_timeout(EXPORT_TIMEOUT).build();
        let mut exporter = exporter.map_err(ConfigError::Telemetry)?;
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        exporter.set_resource(&Resource::builder().with_service_name("flowloom").with_attribute(version).build());
        let (queue, waiting) = mpsc::channel(MAX_QUEUED_RUNS);
        let dropped_runs = Arc::default();
        tokio::spawn(export_queue(exporter, waiting, Arc::clone(&dropped_runs)));
        Ok(TraceExporter { queue, dropped_runs })
    }

    /// Exports a run if it has ended. If the queue is full, the run is dropped.
    pub fn export_run(&self, state: &RunState) {
        if !state.status.is_final() {
            return;
        }
        match self.queue.try_reserve() {
            Ok(place) => place.send(QueuedTraces::Spans(build_spans(state))),
            Err(_) => drop(self.dropped_runs.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Waits until the runs that have ended are exported, but not for long.
    pub async fn flush_traces(&self) {
        let (done, flushed) = oneshot::channel();
        let wait = async {
            if self.queue.send(QueuedTraces::Flush(done)).await.is_ok() {
                let _ = flushed.await;
            }
        };
        if tokio::time::timeout(FLUSH_TIMEOUT, wait).await.is_err() {
            tracing::warn!("the last traces were not exported within {} s", FLUSH_TIMEOUT.as_secs());
        }
    }
}

/// Exports what is queued, several runs at a time.
async fn export_queue(exporter: SpanExporter, mut queue: mpsc::Receiver<QueuedTraces>, dropped_runs: Arc<AtomicU64>) {
    while let Some(first) = queue.recv().await {
        let (mut spans, mut flushed) = (Vec::new(), None);
        let mut next = Some(first);
        while let Some(queued) = next {
            match queued {
                QueuedTraces::Spans(more) => spans.extend(more),
                QueuedTraces::Flush(done) => flushed = Some(done),
            }
            let is_full = spans.len() >= MAX_BATCH_SPANS || flushed.is_some();
            next = if is_full { None } else { queue.try_recv().ok() };
        }
        let count = spans.len();
        if count > 0
            && let Err(error) = exporter.export(spans).await
        {
            tracing::warn!(spans = count, "cannot export telemetry: {error}");
        }
        let dropped = dropped_runs.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            tracing::warn!(
                runs = dropped,
                "runs were not exported as traces: they end faster than the collector takes them"
            );
        }
        // The process may have stopped waiting.
        flushed.map(|done| done.send(()));
    }
}

/// Converts a run and its steps to the spans of one trace: the trace of the call that started the run, or its own.
/// Nothing if that trace is not recorded.
fn build_spans(state: &RunState) -> Vec<SpanData> {
    let Some(run) = state.run else { return Vec::new() };
    let trace = RunTrace::of_run(run, state);
    if !trace.context.is_sampled {
        return Vec::new();
    }
    let (name, format, workflow) = state.created.as_ref().map_or_else(Default::default, |created| {
        (created.name.clone(), created.format.to_string(), created.workflow.clone().unwrap_or_default())
    });
    let mut attributes = vec![
        KeyValue::new("gen_ai.operation.name", "invoke_workflow"),
        KeyValue::new("gen_ai.workflow.name", name.clone()),
        KeyValue::new("flowloom.run.id", run.to_string()),
        KeyValue::new("flowloom.workflow.id", workflow),
        KeyValue::new("flowloom.format", format),
        KeyValue::new("flowloom.status", state.status.name()),
    ];
    attributes.extend(usage_attributes(Some(&state.usage)));
    attributes.extend(state.error.as_ref().map(error_type));
    let status = match &state.error {
        Some(error) => error_status(error),
        None if state.status == RunStatus::Succeeded => Status::Ok,
        None => Status::Unset,
    };
    let whole = SpanData {
        name: format!("invoke_workflow {name}").into(),
        parent_span_id: trace.parent_span(),
        parent_span_is_remote: trace.context.parent.is_some(),
        span_kind: SpanKind::Server,
        start_time: to_system_time(trace.reopened_at.unwrap_or(state.created_at)),
        end_time: to_system_time(state.finished_at.unwrap_or(state.created_at)),
        attributes,
        status,
        links: trace.link_earlier(),
        ..trace.empty_span(&Path::root())
    };
    let steps = state.steps().iter().filter(|step| trace.has_own_span(step));
    std::iter::once(whole).chain(steps.map(|step| build_step_span(&trace, step))).collect()
}

fn build_step_span(trace: &RunTrace, step: &StepState) -> SpanData {
    let kind = step.kind.as_deref().unwrap_or("step");
    let EffectSpan { name, kind: span_kind, mut attributes } =
        describe_effect(kind, step.target.as_deref().unwrap_or_default(), step.path.as_str());
    attributes.extend([
        KeyValue::new("flowloom.step.kind", kind.to_owned()),
        KeyValue::new("flowloom.step.path", step.path.as_str().to_owned()),
        KeyValue::new("flowloom.step.attempts", i64::from(step.attempts)),
        KeyValue::new("flowloom.step.phase", step.phase.name()),
    ]);
    attributes.extend(usage_attributes(step.usage.as_ref()));
    attributes.extend(response_attributes(kind, step));
    let failure = step.error.as_ref().filter(|_| step.phase == Phase::Failed);
    attributes.extend(failure.map(|error| match response_status(kind, step) {
        // The conventions of HTTP: the error is the status, if there was one.
        Some(status) => KeyValue::new("error.type", status.to_string()),
        None => error_type(error),
    }));
    SpanData {
        name: name.into(),
        parent_span_id: SpanId::from_bytes(trace.context.span_id(trace.run, &Path::root())),
        span_kind,
        start_time: to_system_time(step.started_at),
        end_time: to_system_time(step.finished_at.unwrap_or(step.started_at)),
        attributes,
        status: failure.map_or(Status::Unset, error_status),
        ..trace.empty_span(&step.path)
    }
}

/// The attributes of a step's span that describe its effect.
struct EffectSpan {
    name: String,
    kind: SpanKind,
    attributes: Vec<KeyValue>,
}

/// Describes an effect as the semantic conventions do. Only names and hosts are exported: questions, paths and queries of
/// URLs and keys of memories may contain what a person or a model wrote.
fn describe_effect(kind: &str, target: &str, path: &str) -> EffectSpan {
    match kind {
        "generate" => {
            let (provider, model) = target.split_once(':').unwrap_or(("", target));
            let attributes = vec![
                KeyValue::new("gen_ai.operation.name", "chat"),
                KeyValue::new("gen_ai.provider.name", provider_name(provider).to_owned()),
                KeyValue::new("gen_ai.request.model", model.to_owned()),
            ];
            EffectSpan { name: format!("chat {model}"), kind: SpanKind::Client, attributes }
        }
        "call" => {
            let attributes = vec![
                KeyValue::new("gen_ai.operation.name", "execute_tool"),
                KeyValue::new("gen_ai.tool.name", target.to_owned()),
                KeyValue::new("gen_ai.tool.type", "function"),
            ];
            EffectSpan { name: format!("execute_tool {target}"), kind: SpanKind::Internal, attributes }
        }
        "http" | "scrape" => {
            let (method, url) = target.split_once(' ').filter(|_| kind == "http").unwrap_or(("GET", target));
            let mut attributes = vec![KeyValue::new("http.request.method", method.to_owned())];
            attributes.extend(server_attributes(url));
            EffectSpan { name: method.to_owned(), kind: SpanKind::Client, attributes }
        }
        kind => EffectSpan { name: format!("{kind} {path}"), kind: SpanKind::Internal, attributes: Vec::new() },
    }
}

/// The attributes of an effect's span that describe the response: the answering model and its stop reason, or the status.
fn response_attributes(kind: &str, step: &StepState) -> Vec<KeyValue> {
    if kind == "generate" && step.phase == Phase::Finished {
        let facts = step.response.as_deref().cloned().unwrap_or_default();
        let asked = step.target.as_deref().unwrap_or_default();
        let model = facts.model.unwrap_or_else(|| asked.split_once(':').map_or(asked, |(_, name)| name).to_owned());
        let calls = step.output.as_ref().and_then(|output| output.get("tool_calls")?.as_list());
        let ended = if calls.is_some_and(|calls| !calls.is_empty()) { "tool_calls" } else { "stop" };
        let reason = StringValue::from(facts.finish_reason.map_or(ended, FinishReason::name));
        return vec![
            KeyValue::new("gen_ai.response.model", model),
            KeyValue::new("gen_ai.response.finish_reasons", OtelValue::Array(Array::String(vec![reason]))),
        ];
    }
    let status =
        response_status(kind, step).map(|status| KeyValue::new("http.response.status_code", i64::from(status)));
    status.into_iter().collect()
}

/// The status of the response to an HTTP step; `None` if there was none.
fn response_status(kind: &str, step: &StepState) -> Option<u16> {
    match (kind, step.phase) {
        ("http", Phase::Finished) => {
            Some(step.response.as_ref().and_then(|facts| facts.status).unwrap_or(DEFAULT_STATUS))
        }
        ("http", Phase::Failed) => step.error.as_ref().and_then(failed_status),
        _ => None,
    }
}

/// The scheme, host and port of a URL; nothing if it has no host.
fn server_attributes(url: &str) -> Vec<KeyValue> {
    let Ok(url) = url::Url::parse(url) else { return Vec::new() };
    let Some(host) = url.host_str() else { return Vec::new() };
    let mut attributes =
        vec![KeyValue::new("url.scheme", url.scheme().to_owned()), KeyValue::new("server.address", host.to_owned())];
    attributes.extend(url.port_or_known_default().map(|port| KeyValue::new("server.port", i64::from(port))));
    attributes
}

/// The name of a provider in the conventions; our own name for those that they do not list.
fn provider_name(provider: &str) -> &str {
    match provider {
        "gemini" => "gcp.gemini",
        "mistral" => "mistral_ai",
        "xai" => "x_ai",
        own => own,
    }
}

fn usage_attributes(usage: Option<&flowloom_core::chat::Usage>) -> Vec<KeyValue> {
    let Some(usage) = usage else { return Vec::new() };
    vec![
        KeyValue::new("gen_ai.usage.input_tokens", usage.input_tokens as i64),
        KeyValue::new("gen_ai.usage.output_tokens", usage.output_tokens as i64),
    ]
}

fn error_type(error: &StepFailure) -> KeyValue {
    KeyValue::new("error.type", error.code.to_string())
}

/// The status of a failure. The message of the failure may quote an answer, so only the meaning of its code is exported.
fn error_status(error: &StepFailure) -> Status {
    Status::error(format!("{}: {}", error.code, error.code.title()))
}

/// The trace of a run.
struct RunTrace {
    run: RunId,
    context: TraceContext,
    /// When the run was reopened last, in milliseconds since the Unix epoch; what it did before is exported.
    reopened_at: Option<u64>,
}

impl RunTrace {
    fn of_run(run: RunId, state: &RunState) -> RunTrace {
        let given = state.created.as_ref().and_then(|created| created.trace.clone());
        let earlier_ends = u32::try_from(state.earlier_ends.len()).unwrap_or(u32::MAX);
        RunTrace {
            run,
            context: TraceContext { earlier_ends, ..given.unwrap_or_else(|| TraceContext::of_run(run)) },
            reopened_at: state.earlier_ends.last().map(|end| end.reopened_at),
        }
    }

    /// Whether a step belongs to this end of the run, and not to an earlier one.
    fn has_own_span(&self, step: &StepState) -> bool {
        let last_change = step.finished_at.unwrap_or(step.started_at);
        self.reopened_at.is_none_or(|reopened| last_change >= reopened && step.phase != Phase::Reset)
    }

    /// The span of the run up to its earlier end.
    fn link_earlier(&self) -> SpanLinks {
        let mut links = SpanLinks::default();
        if let Some(before) = self.context.earlier_ends.checked_sub(1) {
            let earlier = RunTrace { context: TraceContext { earlier_ends: before, ..self.context.clone() }, ..*self };
            links.links.push(Link::with_context(earlier.empty_span(&Path::root()).span_context));
        }
        links
    }

    fn parent_span(&self) -> SpanId {
        let parent = self.context.parent.as_deref().and_then(|parent| SpanId::from_hex(parent).ok());
        parent.unwrap_or(SpanId::INVALID)
    }

    /// The span of a path without name, times and attributes.
    fn empty_span(&self, path: &Path) -> SpanData {
        let trace = TraceId::from_hex(&self.context.trace).unwrap_or(TraceId::INVALID);
        let id = SpanId::from_bytes(self.context.span_id(self.run, path));
        SpanData {
            span_context: SpanContext::new(trace, id, TraceFlags::SAMPLED, false, TraceState::default()),
            parent_span_id: SpanId::INVALID,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: Cow::Borrowed(""),
            start_time: UNIX_EPOCH,
            end_time: UNIX_EPOCH,
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: InstrumentationScope::builder("flowloom").build(),
        }
    }
}

fn to_system_time(ms: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(span: &EffectSpan, key: &str) -> Option<String> {
        span.attributes.iter().find(|one| one.key.as_str() == key).map(|one| one.value.to_string())
    }

    #[test]
    fn a_model_call_has_its_provider_and_its_model() {
        let span = describe_effect("generate", "mistral:small:latest", "/a");
        assert_eq!(span.name, "chat small:latest");
        assert_eq!(attribute(&span, "gen_ai.provider.name").as_deref(), Some("mistral_ai"));
        assert_eq!(attribute(&span, "gen_ai.request.model").as_deref(), Some("small:latest"));
    }

    #[test]
    fn what_a_person_wrote_is_not_exported() {
        for (kind, target) in [
            ("http", "GET http://127.0.0.1:9901/a/wish?q=wish#wish"),
            ("http", "POST wish"),
            ("scrape", "https://wish:wish@example.com/wish"),
            ("scrape", "wish no URL"),
            ("ask", "What about the wish?"),
            ("memory_get", "wish"),
        ] {
            let span = describe_effect(kind, target, "/a");
            assert!(!format!("{} {:?}", span.name, span.attributes).contains("wish"), "{kind} {target}");
        }
        let span = describe_effect("http", "GET http://127.0.0.1:9901/boom?q=1", "/a");
        assert_eq!((span.name.as_str(), attribute(&span, "server.port").as_deref()), ("GET", Some("9901")));
    }
}
