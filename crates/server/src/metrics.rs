//! `GET /metrics`: figures in the text format of Prometheus.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, State};
use axum::http::{Method, header};
use axum::response::{IntoResponse, Response};
use flowloom_app::keys::Scope;
use flowloom_core::chat::Usage;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_runtime::metrics::{
    BUCKET_BOUNDS_MS, EndedRuns, Figures, Histogram, LabeledHistograms, ProcessEvent, add_duration, read_figures,
};
use flowloom_store::StoreError;
use parking_lot::Mutex;

use crate::caller::Caller;
use crate::health::check_ready;
use crate::problem::ApiResult;
use crate::state::{RunHost, Server};

/// Durations of requests, by `method`, `route` and `status`.
#[derive(Default)]
pub(crate) struct RequestDurations(Mutex<LabeledHistograms>);

impl RequestDurations {
    /// Counts a request, whose route was found by the router. A stream counts until its first byte.
    pub(crate) fn record_request(&self, method: &Method, response: &Response, duration_ms: u64) {
        let known = [Method::GET, Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS, Method::HEAD];
        let method = known.iter().find(|known| *known == method).map_or("other", |known| known.as_str());
        let route = response.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str);
        let labels = [
            ("method", Cow::Owned(method.to_owned())),
            ("route", Cow::Owned(route.to_owned())),
            ("status", Cow::Owned(response.status().as_u16().to_string())),
        ];
        add_duration(&mut self.0.lock(), &labels, duration_ms);
    }

    fn read(&self) -> LabeledHistograms {
        self.0.lock().clone()
    }
}

/// The path of the metrics.
pub(crate) const METRICS_PATH: &str = "/metrics";

/// How long the metrics wait for the database.
const DATABASE_TIMEOUT: Duration = Duration::from_secs(3);

/// How long the result of a check counts, so that reading metrics often costs the database little.
const CHECK_LIFETIME: Duration = Duration::from_secs(3);

/// Whether the server is ready, as it was found last, and when.
#[derive(Default)]
pub(crate) struct Readiness(tokio::sync::Mutex<Option<(Instant, bool)>>);

impl Readiness {
    /// Whether the server is ready, as `/health/ready` reports. Readers at the same time share one check.
    async fn check(&self, host: &RunHost) -> bool {
        let mut last = self.0.lock().await;
        if let Some((at, is_ready)) = *last
            && at.elapsed() < CHECK_LIFETIME
        {
            return is_ready && !host.supervisor.is_closed();
        }
        let checked = tokio::time::timeout(DATABASE_TIMEOUT, check_ready(host)).await;
        let is_ready = matches!(checked, Ok(Ok(())));
        *last = Some((Instant::now(), is_ready));
        is_ready
    }
}

/// Returns metrics of all users in the text format of Prometheus. A key with a user is refused.
#[utoipa::path(get, path = "/metrics", tag = "health", operation_id = "metrics", security(("key" = ["read"])),
    responses((status = 200, description = "Prometheus text format", body = String, content_type = "text/plain")))]
pub(crate) async fn get_metrics(State(server): State<Server>, caller: Caller) -> ApiResult<Response> {
    caller.require_scope_for_all(Scope::Read, "read the figures of all users")?;
    // During an outage of the database, the figures of the process remain, so that the outage can be observed.
    let (is_ready, stored) = tokio::join!(server.readiness.check(&server.host), read_stored_in_time(&server));
    let mut text = MetricsText::default();
    text.write_gauge("ready", "1 if the server is ready, as /health/ready says.", u64::from(is_ready));
    text.write_gauge("database_up", "1 if the database could be read for these figures.", u64::from(stored.is_some()));
    text.write_process(&server);
    if let Some(stored) = &stored {
        text.write_stored(stored);
    }
    let durations = server.requests.read();
    text.write_histograms("http_request_duration_seconds", "Time until the response to a request begins.", &durations);
    text.write_figures(&read_figures());
    Ok(text.into_response())
}

/// Returns metrics of a worker of Restate in the text format of Prometheus: what happened in its process. A key with a user is
/// refused.
#[utoipa::path(get, path = "/metrics", tag = "health", operation_id = "metrics", security(("key" = ["read"])),
    responses((status = 200, description = "Prometheus text format", body = String, content_type = "text/plain")))]
pub(crate) async fn get_worker_metrics(State(server): State<Server>, caller: Caller) -> ApiResult<Response> {
    caller.require_scope_for_all(Scope::Read, "read the figures of all users")?;
    let mut text = MetricsText::default();
    let is_ready = server.readiness.check(&server.host).await;
    text.write_gauge("ready", "1 if the worker is ready, as /health/ready says.", u64::from(is_ready));
    text.write_counter("commits_total", "Commits since the start.", server.host.app.store.commit_count());
    text.write_figures(&read_figures());
    Ok(text.into_response())
}

/// The figures that come from the database.
struct StoredFigures {
    size_bytes: u64,
    oldest_seconds: u64,
    runs: Vec<(String, u64)>,
    open_questions: u64,
    oldest_question_seconds: u64,
}

/// The figures of the database; `None` if it cannot be read in time.
async fn read_stored_in_time(server: &Server) -> Option<StoredFigures> {
    let server = server.clone();
    let reading = crate::blocking::run_blocking(move || read_stored(&server));
    match tokio::time::timeout(DATABASE_TIMEOUT, reading).await {
        Ok(Ok(Ok(stored))) => Some(stored),
        Ok(Ok(Err(error))) => {
            if !error.code().is_store_outage() {
                tracing::warn!(code = %error.code(), "cannot read the figures of the database: {error}");
            }
            None
        }
        _ => None,
    }
}

fn read_stored(server: &Server) -> Result<StoredFigures, StoreError> {
    let store = &server.host.app.store;
    let age = |at: u64| SystemClock.now_ms().saturating_sub(at) / 1000;
    let (counts, questions) = (store.count_by_status()?, store.count_open_questions()?);
    Ok(StoredFigures {
        size_bytes: store.size_bytes()?,
        oldest_seconds: store.oldest_unfinished_at()?.map_or(0, age),
        runs: counts.into_iter().map(|(status, count)| (format!("{{status=\"{status}\"}}"), count)).collect(),
        open_questions: questions.count,
        oldest_question_seconds: questions.oldest_at.map_or(0, age),
    })
}

/// The names and descriptions of the counters of events.
const EVENT_COUNTERS: [(ProcessEvent, &str, &str); 3] = [
    (ProcessEvent::RunReclaimed, "runs_reclaimed_total", "Runs without a process that this one reclaimed."),
    (ProcessEvent::LeaseLost, "leases_lost_total", "Runs of this process that another one took over."),
    (ProcessEvent::DatabaseOutage, "database_outages_total", "Outages of the database that this process met."),
];

/// The text of the metrics.
#[derive(Default)]
struct MetricsText(String);

impl IntoResponse for MetricsText {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], self.0).into_response()
    }
}

impl MetricsText {
    fn write_head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP flowloom_{name} {help}\n# TYPE flowloom_{name} {kind}");
    }

    fn write_rows(&mut self, name: &str, kind: &str, help: &str, rows: &[(String, u64)]) {
        self.write_head(name, kind, help);
        for (labels, value) in rows {
            let _ = writeln!(self.0, "flowloom_{name}{labels} {value}");
        }
    }

    fn write_gauge(&mut self, name: &str, help: &str, value: u64) {
        self.write_rows(name, "gauge", help, &[(String::new(), value)]);
    }

    fn write_counter(&mut self, name: &str, help: &str, value: u64) {
        self.write_rows(name, "counter", help, &[(String::new(), value)]);
    }

    /// Writes what the process knows by itself.
    fn write_process(&mut self, server: &Server) {
        let host = &server.host;
        self.write_gauge("runs_live", "Runs that this process drives.", host.supervisor.count() as u64);
        // The server itself holds one reference.
        let followers = Arc::strong_count(&host.followers) - 1;
        self.write_gauge("followers", "Clients that follow a run.", followers as u64);
        let without_vectors = u64::from(host.app.blocks.requested_embedding_failure().is_some());
        self.write_gauge("embeddings_failing", "1 while the embeddings that were configured fail.", without_vectors);
        self.write_counter("commits_total", "Commits since the start.", host.app.store.commit_count());
    }

    /// Writes the figures from the database.
    fn write_stored(&mut self, stored: &StoredFigures) {
        self.write_gauge("journal_bytes", "Bytes of the database.", stored.size_bytes);
        let help =
            "Age in seconds of the oldest unfinished run that waits for no person and no time; 0 if there is none.";
        self.write_gauge("oldest_unfinished_seconds", help, stored.oldest_seconds);
        self.write_rows("runs", "gauge", "Runs in the database by status.", &stored.runs);
        self.write_gauge("open_questions", "Questions that wait for a person.", stored.open_questions);
        let help = "Age in seconds of the oldest question that waits for a person; 0 if there is none.";
        self.write_gauge("oldest_question_seconds", help, stored.oldest_question_seconds);
    }

    /// Writes what happened in this process since its start.
    fn write_figures(&mut self, figures: &Figures) {
        let ended = figures.ended_runs.iter().map(|(EndedRuns { workflow, status }, count)| {
            (format!("{{status=\"{status}\",workflow=\"{}\"}}", escape_label(workflow)), *count)
        });
        let help = "Runs that ended in this process, without child runs.";
        self.write_rows("runs_ended_total", "counter", help, &ended.collect::<Vec<_>>());
        for (event, name, help) in EVENT_COUNTERS {
            self.write_counter(name, help, figures.count_of(event));
        }
        self.write_histograms("step_duration_seconds", "Time that effects of steps took.", &figures.steps);
        self.write_histograms("model_call_duration_seconds", "Time that model calls took.", &figures.model_calls);
        self.write_histograms("queue_wait_seconds", "Time that requests waited for a place.", &figures.queues);
        self.write_model_usage(&figures.model_usage);
    }

    fn write_histograms(&mut self, name: &str, help: &str, all: &LabeledHistograms) {
        if all.is_empty() {
            return;
        }
        self.write_head(name, "histogram", help);
        for (labels, histogram) in all {
            let pairs: Vec<String> =
                labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape_label(value))).collect();
            self.write_histogram(name, &pairs.join(","), histogram);
        }
    }

    fn write_histogram(&mut self, name: &str, labels: &str, histogram: &Histogram) {
        let mut total = 0;
        let bounds = BUCKET_BOUNDS_MS.iter().map(|bound| seconds(*bound)).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(histogram.cumulative_counts()) {
            let _ = writeln!(self.0, "flowloom_{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
            total = count;
        }
        let _ = writeln!(self.0, "flowloom_{name}_sum{{{labels}}} {}", seconds(histogram.sum_ms()));
        let _ = writeln!(self.0, "flowloom_{name}_count{{{labels}}} {total}");
    }

    fn write_model_usage(&mut self, all: &std::collections::BTreeMap<String, Usage>) {
        if all.is_empty() {
            return;
        }
        self.write_head("model_tokens_total", "counter", "Tokens of model calls.");
        for (provider, usage) in all {
            let provider = escape_label(provider);
            for (direction, tokens) in [("input", usage.input_tokens), ("output", usage.output_tokens)] {
                let labels = format!("provider=\"{provider}\",direction=\"{direction}\"");
                let _ = writeln!(self.0, "flowloom_model_tokens_total{{{labels}}} {tokens}");
            }
        }
        self.write_head("model_cost_usd_total", "counter", "Cost of model calls whose prices are all known.");
        for (provider, usage) in all {
            let Some(micro_usd) = usage.micro_usd else { continue };
            let (provider, usd) = (escape_label(provider), micro_usd as f64 / 1e6);
            let _ = writeln!(self.0, "flowloom_model_cost_usd_total{{provider=\"{provider}\"}} {usd}");
        }
    }
}

/// Milliseconds as seconds.
fn seconds(ms: u64) -> String {
    (ms as f64 / 1e3).to_string()
}

fn escape_label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
