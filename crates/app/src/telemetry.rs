//! Exports finished runs as OpenTelemetry traces over OTLP/HTTP. Disabled unless a URL is configured.
//!
//! The names of spans and attributes follow the semantic conventions for generative AI, which are not stable yet; they
//! are used only in this file. Prompts and answers are not exported.

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flowloom_core::error::StepFailure;
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::state::{Phase, RunState, StepState};
use flowloom_core::status::Status as RunStatus;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use tokio::sync::mpsc;

use crate::config::error::ConfigError;

/// Maximum number of queued runs; further runs are dropped, so that a slow collector does not slow down runs.
const MAX_QUEUED_RUNS: usize = 1024;

/// Maximum number of spans per export.
const MAX_BATCH_SPANS: usize = 2048;

/// Time-out of an export.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// Handle of the exporter.
#[derive(Clone)]
pub struct TraceExporter {
    finished_runs: mpsc::Sender<Vec<SpanData>>,
}

impl TraceExporter {
    /// Starts exporting to the collector at `address`, for example `http://localhost:4318`.
    pub fn start(address: &str) -> Result<TraceExporter, ConfigError> {
        let endpoint = format!("{}/v1/traces", address.trim_end_matches('/'));
        let exporter = SpanExporter::builder().with_http().with_endpoint(endpoint).with_timeout(EXPORT_TIMEOUT).build();
        let mut exporter = exporter.map_err(ConfigError::Telemetry)?;
        exporter.set_resource(&Resource::builder().with_service_name("flowloom").build());
        let (ended, mut waiting) = mpsc::channel::<Vec<SpanData>>(MAX_QUEUED_RUNS);
        tokio::spawn(async move {
            while let Some(mut spans) = waiting.recv().await {
                while spans.len() < MAX_BATCH_SPANS
                    && let Ok(more) = waiting.try_recv()
                {
                    spans.extend(more);
                }
                let count = spans.len();
                if let Err(error) = exporter.export(spans).await {
                    tracing::warn!(spans = count, "cannot export telemetry: {error}");
                }
            }
        });
        Ok(TraceExporter { finished_runs: ended })
    }

    /// Exports a run if it has ended.
    pub fn export_run(&self, state: &RunState) {
        if state.status.is_final() {
            // If the queue is full, the run is dropped.
            let _ = self.finished_runs.try_send(build_spans(state));
        }
    }
}

/// Converts a run and its steps to the spans of one trace, whose id is the run's.
fn build_spans(state: &RunState) -> Vec<SpanData> {
    let Some(run) = state.run else { return Vec::new() };
    let root = span_id("");
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
    let status = match &state.error {
        Some(error) => error_status(error),
        None if state.status == RunStatus::Succeeded => Status::Ok,
        None => Status::Unset,
    };
    let whole = SpanData {
        name: format!("invoke_workflow {name}").into(),
        span_kind: SpanKind::Server,
        start_time: to_system_time(state.created_at),
        end_time: to_system_time(state.finished_at.unwrap_or(state.created_at)),
        attributes,
        status,
        ..empty_span(run, root)
    };
    std::iter::once(whole).chain(state.steps().iter().map(|step| build_step_span(run, root, step))).collect()
}

fn build_step_span(run: RunId, root: SpanId, step: &StepState) -> SpanData {
    let kind = step.kind.as_deref().unwrap_or("step");
    let target = step.target.as_deref().unwrap_or_default();
    // The conventions name model and tool calls; other steps use their own kind.
    let (operation, name, label) = match kind {
        "generate" => ("chat", format!("chat {target}"), "gen_ai.request.model"),
        "call" => ("execute_tool", format!("execute_tool {target}"), "gen_ai.tool.name"),
        kind => (kind, format!("{kind} {}", step.path.as_str()), "flowloom.target"),
    };
    let mut attributes = vec![
        KeyValue::new("gen_ai.operation.name", operation.to_owned()),
        KeyValue::new(label, target.to_owned()),
        KeyValue::new("flowloom.step.path", step.path.as_str().to_owned()),
        KeyValue::new("flowloom.step.attempts", i64::from(step.attempts)),
        KeyValue::new("flowloom.step.phase", step.phase.name()),
    ];
    attributes.extend(usage_attributes(step.usage.as_ref()));
    let status = match (&step.error, step.phase) {
        (Some(error), Phase::Failed) => error_status(error),
        _ => Status::Unset,
    };
    let span_kind = if matches!(kind, "generate" | "http" | "scrape") { SpanKind::Client } else { SpanKind::Internal };
    SpanData {
        name: name.into(),
        parent_span_id: root,
        span_kind,
        start_time: to_system_time(step.started_at),
        end_time: to_system_time(step.finished_at.unwrap_or(step.started_at)),
        attributes,
        status,
        ..empty_span(run, span_id(step.path.as_str()))
    }
}

fn usage_attributes(usage: Option<&flowloom_core::chat::Usage>) -> Vec<KeyValue> {
    let Some(usage) = usage else { return Vec::new() };
    vec![
        KeyValue::new("gen_ai.usage.input_tokens", usage.input_tokens as i64),
        KeyValue::new("gen_ai.usage.output_tokens", usage.output_tokens as i64),
    ]
}

fn error_status(error: &StepFailure) -> Status {
    Status::error(format!("{}: {}", error.code, error.message))
}

/// A span of a run's trace without name, times and attributes.
fn empty_span(run: RunId, id: SpanId) -> SpanData {
    let trace = TraceId::from_bytes(run.0.into_bytes());
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

/// The span id of a path. It is the same in every run; the trace id distinguishes runs.
fn span_id(path: &str) -> SpanId {
    let hash = Hash::of_bytes(format!("span {path}").as_bytes());
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash.as_bytes()[..8]);
    SpanId::from_bytes(bytes)
}

fn to_system_time(ms: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(ms)
}
