//! `GET /metrics`: figures in the text format of Prometheus.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{MatchedPath, State};
use axum::http::{Method, header};
use axum::response::{IntoResponse as _, Response};
use flowloom_app::keys::Scope;
use flowloom_core::chat::Usage;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_runtime::metrics::{BUCKET_BOUNDS_MS, Histogram, LabeledHistograms, add_duration, read_figures};
use flowloom_store::StoreError;

use crate::caller::Caller;
use crate::problem::ApiResult;
use crate::state::Server;

/// Durations of requests, by `method`, `route` and `status`.
#[derive(Default)]
pub(crate) struct RequestDurations(Mutex<LabeledHistograms>);

impl RequestDurations {
    /// Counts a request, whose route was found by the router. A stream counts until its first byte.
    pub(crate) fn record_request(&self, method: &Method, response: &Response, duration_ms: u64) {
        let known = [Method::GET, Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS, Method::HEAD];
        let method = known.iter().find(|known| *known == method).map_or("other", |known| known.as_str());
        let route = response.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str);
        let labels = vec![
            ("method", Cow::Owned(method.to_owned())),
            ("route", Cow::Owned(route.to_owned())),
            ("status", Cow::Owned(response.status().as_u16().to_string())),
        ];
        add_duration(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner), labels, duration_ms);
    }

    fn read(&self) -> LabeledHistograms {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Returns metrics of all users in the text format of Prometheus. A key with a user is refused.
#[utoipa::path(get, path = "/metrics", tag = "health", operation_id = "metrics", security(("key" = ["read"])),
    responses((status = 200, description = "Prometheus text format", body = String, content_type = "text/plain")))]
pub(crate) async fn get_metrics(State(server): State<Server>, caller: Caller) -> ApiResult<Response> {
    caller.require_scope_for_all(Scope::Read, "read the figures of all users")?;
    let mut text = MetricsText::default();
    text.write_gauge("runs_live", "Runs that this process drives.", server.host.supervisor.count() as u64);
    // The server itself holds one reference.
    let followers = Arc::strong_count(&server.host.followers) - 1;
    text.write_gauge("followers", "Clients that follow a run.", followers as u64);
    let without_vectors = u64::from(server.host.app.blocks.requested_embedding_failure().is_some());
    text.write_gauge("embeddings_failing", "1 while the embeddings that were configured fail.", without_vectors);
    let durations = server.requests.read();
    let stored = crate::blocking::run_blocking(move || read_stored(&server)).await??;
    text.write_gauge("journal_bytes", "Bytes of the database.", stored.size_bytes);
    text.write_rows("commits_total", "counter", "Commits since the start.", &[(String::new(), stored.commits)]);
    let help = "Age in seconds of the oldest unfinished run that waits for no person and no time; 0 if there is none.";
    text.write_gauge("oldest_unfinished_seconds", help, stored.oldest_seconds);
    text.write_rows("runs", "gauge", "Runs in the database by status.", &stored.runs);
    text.write_histograms("http_request_duration_seconds", "Time until the response to a request begins.", &durations);
    let figures = read_figures();
    text.write_histograms("step_duration_seconds", "Time that effects of steps took.", &figures.steps);
    text.write_histograms("model_call_duration_seconds", "Time that model calls took.", &figures.model_calls);
    text.write_histograms("queue_wait_seconds", "Time that requests waited for a place.", &figures.queues);
    text.write_model_usage(&figures.model_usage);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text.0).into_response())
}

/// The figures that come from the database.
struct StoredFigures {
    size_bytes: u64,
    commits: u64,
    oldest_seconds: u64,
    runs: Vec<(String, u64)>,
}

fn read_stored(server: &Server) -> Result<StoredFigures, StoreError> {
    let store = &server.host.app.store;
    let age = |created: u64| SystemClock.now_ms().saturating_sub(created) / 1000;
    let counts = store.count_by_status()?;
    Ok(StoredFigures {
        size_bytes: store.size_bytes()?,
        commits: store.commit_count(),
        oldest_seconds: store.oldest_unfinished_at()?.map_or(0, age),
        runs: counts.into_iter().map(|(status, count)| (format!("{{status=\"{status}\"}}"), count)).collect(),
    })
}

/// The text of the metrics.
#[derive(Default)]
struct MetricsText(String);

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
