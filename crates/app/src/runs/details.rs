//! The steps of a run in full: what each sent and received. The record holds the hashes of requests; they are built again by
//! following it, without performing anything.

use std::collections::HashMap;

use flowloom_core::chat::{Role, Usage};
use flowloom_core::effect::{HttpRequest, Request};
use flowloom_core::error::StepFailure;
use flowloom_core::path::Path;
use flowloom_core::plan::Capture;
use flowloom_core::render;
use flowloom_core::state::{Phase, StepState};
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_runtime::requests::SentRequest;
use serde::Serialize;
use serde_json::json;

use crate::error::AppError;
use crate::runs::masking::{
    MaskedValue, list_credentials_in, list_masked_in, list_masked_values, mask_header, mask_request,
};
use crate::runs::stored::{LoadedRun, StoredRuns};

/// A step with what it sent and received.
#[derive(Debug, Serialize)]
pub struct StepDetails {
    /// Its path.
    pub path: Path,
    /// Its phase.
    pub phase: &'static str,
    /// Kind of its effect; `None` if it has none of its own.
    pub kind: Option<String>,
    /// The target of its effect: model, address or function.
    pub target: Option<String>,
    /// The text that it sends, as the definition has it: with references. Only of the step that is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Its requests, one for each attempt.
    pub requests: Vec<RequestDetails>,
    /// Whether its requests are left out, because those of the steps before it fill the list.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub requests_omitted: bool,
    /// The output of the step.
    pub output: Option<Value>,
    /// Its last failure.
    pub error: Option<StepFailure>,
    /// Why it was skipped.
    pub reason: Option<String>,
    /// References of its requests that had no value, and answers that were cut off.
    pub warnings: Vec<String>,
    /// Tokens and cost.
    pub usage: Option<Usage>,
    /// Whether the output was taken from the run that this one was forked from.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reused: bool,
    /// Time of its first event, in milliseconds since the Unix epoch.
    pub started_at: u64,
    /// Time of its end, in milliseconds since the Unix epoch; `None` if it has not ended.
    pub finished_at: Option<u64>,
}

/// A request of a step. The requests of a conversation share their messages in memory; written, each has them all.
#[derive(Debug, Serialize)]
pub struct RequestDetails {
    /// The attempt, from 1.
    pub attempt: u32,
    #[serde(serialize_with = "serialize_request")]
    request: Request,
}

fn serialize_request<S: serde::Serializer>(request: &Request, serializer: S) -> Result<S::Ok, S::Error> {
    request_to_json(request).serialize(serializer)
}

impl RequestDetails {
    /// The request; its fields depend on the kind of the effect. Secrets are names.
    pub fn to_json(&self) -> serde_json::Value {
        request_to_json(&self.request)
    }
}

/// The steps of a run, in the order of the journal: all, or those at a path and below. Fails if an engine cannot be
/// built from the settings in the bundle of the run.
pub async fn read_details(
    runs: &StoredRuns,
    opened: &LoadedRun,
    within: Option<&Path>,
) -> Result<Vec<StepDetails>, AppError> {
    let engine = runs.engine_for_run(opened)?;
    let sent = engine.collect_requests(opened.records.clone(), opened.plan.clone()).await;
    let mut by_path: HashMap<Path, Vec<RequestDetails>> = HashMap::new();
    for SentRequest { path, attempt, request, .. } in sent {
        by_path.entry(path).or_default().push(RequestDetails { attempt, request });
    }
    let state = opened.state();
    let is_within = |step: &&StepState| within.is_none_or(|within| step.path.is_within(within));
    let mut describe = |step: &StepState| {
        let details = describe_step(step, state.status, by_path.remove(&step.path).unwrap_or_default());
        let is_wanted = within.is_some_and(|within| *within == step.path);
        StepDetails {
            prompt: is_wanted.then(|| opened.bundle().read_prompt(&opened.plan, &step.path)).flatten(),
            ..details
        }
    };
    Ok(state.steps().iter().filter(is_within).map(&mut describe).collect())
}

/// Leaves out the requests after those whose JSON has so many bytes in all. In a long conversation, the requests together
/// are as large as the square of its length.
pub fn omit_requests_beyond(steps: &mut [StepDetails], max_bytes: usize) {
    let mut bytes = 0;
    for step in steps {
        if bytes < max_bytes {
            bytes += step.requests.iter().map(|request| request.to_json().to_string().len()).sum::<usize>();
        } else if !step.requests.is_empty() {
            (step.requests, step.requests_omitted) = (Vec::new(), true);
        }
    }
}

/// The phase of a step in a run of this status. A step whose worker has died, or whose run has ended without it, has no event
/// about that.
pub(super) fn name_phase(step: &StepState, run: Status) -> &'static str {
    match step.phase {
        Phase::Running if run == Status::Interrupted => run.name(),
        Phase::Running | Phase::Waiting if run.is_final() => Phase::Aborted.name(),
        phase => phase.name(),
    }
}

/// `requests` are those of the step, in order.
fn describe_step(step: &StepState, run: Status, requests: Vec<RequestDetails>) -> StepDetails {
    StepDetails {
        path: step.path.clone(),
        phase: name_phase(step, run),
        kind: step.kind.as_deref().map(str::to_owned),
        target: step.target.as_deref().map(str::to_owned),
        prompt: None,
        requests,
        requests_omitted: false,
        output: step.output.clone(),
        error: step.error.clone(),
        reason: step.reason.as_deref().map(str::to_owned),
        warnings: step.warnings.clone(),
        usage: step.usage,
        reused: step.is_reused,
        started_at: step.started_at,
        finished_at: step.finished_at,
    }
}

/// A request as JSON. Secrets are names in it, and those in headers and in parameters of addresses are masked.
pub(crate) fn request_to_json(request: &Request) -> serde_json::Value {
    let mut all = write_request(request);
    if sends_credentials(request) {
        mask_request(&mut all);
    }
    all
}

/// Whether a request reaches an address, or can do so.
fn sends_credentials(request: &Request) -> bool {
    use Request::{Call, Http, HttpExchange, Python, Scrape};
    matches!(request, Call(_) | Python(_) | Http(_) | HttpExchange(_) | Scrape(_))
}

/// The secrets in the headers and parameters of a request, as they could occur elsewhere.
pub(crate) fn list_request_secrets(request: &Request) -> Vec<MaskedValue> {
    let mut found = match request {
        Request::Http(request) | Request::HttpExchange(request) => {
            request.headers.iter().flat_map(|(name, value)| list_masked_values(name, value)).collect()
        }
        _ => Vec::new(),
    };
    if sends_credentials(request) {
        let written = write_request(request);
        if matches!(request, Request::Call(_) | Request::Python(_)) {
            found.extend(list_masked_in(&written));
        }
        found.extend(list_credentials_in(written));
    }
    found
}

fn write_request(request: &Request) -> serde_json::Value {
    match request {
        Request::Generate(request) => {
            let messages: Vec<_> = request.messages.iter().collect();
            let mut all = json!({"model": request.model, "messages": messages});
            let options = serde_json::to_value(&request.options).unwrap_or_default();
            for (name, value) in
                [("tools", json!(request.tools)), ("schema", json!(request.schema)), ("options", options)]
            {
                if !is_empty(&value) {
                    all[name] = value;
                }
            }
            all
        }
        Request::Http(request) | Request::HttpExchange(request) => http_to_json(request),
        Request::Scrape(request) => {
            json!({"url": request.url, "capture": if request.capture == Capture::Html { "html" } else { "text" }})
        }
        Request::Call(request) => json!({"function": request.function, "arguments": request.payload.to_value()}),
        Request::Python(request) => json!({"inputs": request.inputs}),
        Request::MemoryGet { key } => json!({"key": key}),
        Request::MemorySet { key, value } => json!({"key": key, "value": value}),
        Request::Memories | Request::Profile => json!({}),
        Request::Ask(request) => json!(request),
        Request::Wait { duration_ms } => json!({"duration_ms": duration_ms}),
    }
}

fn http_to_json(request: &HttpRequest) -> serde_json::Value {
    let headers: serde_json::Map<_, _> =
        request.headers.iter().map(|(name, value)| (name.clone(), mask_header(name, value).into())).collect();
    let mut all = json!({"method": request.method, "url": request.url.to_redacted_text()});
    if !headers.is_empty() {
        all["headers"] = headers.into();
    }
    if let Some(body) = &request.body {
        all["body"] = body.to_redacted_text().into();
    }
    all
}

fn is_empty(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::Null => true,
        serde_json::Value::Array(items) => items.is_empty(),
        serde_json::Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

impl StepDetails {
    /// The input of the step as text: the prompt, the request, the arguments or the question.
    pub fn describe_input(&self) -> Option<String> {
        describe_request(self.kind.as_deref()?, &self.requests.last()?.to_json())
    }

    /// The last message of a person to the model, or else the input of the step.
    pub fn describe_prompt(&self) -> Option<String> {
        let asked = match &self.requests.last()?.request {
            Request::Generate(request) => request.messages.iter().rev().find(|message| message.role == Role::User),
            _ => None,
        };
        asked.map(|message| message.content.clone()).or_else(|| self.describe_input())
    }

    /// The output of the step as text.
    pub fn describe_output(&self) -> Option<String> {
        self.output.as_ref().map(|output| match output {
            Value::String(text) => text.to_string(),
            other => render::to_json(other),
        })
    }
}

/// A request in the words of its kind: the prompt, the request, the arguments, the question.
pub(crate) fn describe_request(kind: &str, request: &serde_json::Value) -> Option<String> {
    let text = |name: &str| request.get(name).and_then(serde_json::Value::as_str).map(str::to_owned);
    match kind {
        "generate" => {
            let messages = request.get("messages")?.as_array()?;
            let one = |message: &serde_json::Value| {
                let field = |name: &str| message.get(name).and_then(serde_json::Value::as_str).unwrap_or_default();
                match (messages.len(), field("role")) {
                    (1, "user") => field("content").to_owned(),
                    (_, role) => format!("[{role}] {}", field("content")),
                }
            };
            Some(messages.iter().map(one).collect::<Vec<_>>().join("\n"))
        }
        "http" => Some(match text("body") {
            Some(body) => format!("{} {}\n{body}", text("method")?, text("url")?),
            None => format!("{} {}", text("method")?, text("url")?),
        }),
        "scrape" => text("url"),
        "ask" => text("question"),
        "call" => request.get("arguments").map(ToString::to_string),
        "python" => request.get("inputs").map(ToString::to_string),
        "memory_get" => text("key"),
        "memory_set" => Some(format!("{} = {}", text("key")?, request.get("value")?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_step(name: &str, has_request: bool) -> StepDetails {
        let request = RequestDetails { attempt: 1, request: Request::MemoryGet { key: "k".repeat(100) } };
        StepDetails {
            path: Path::parse(name).expect("a path"),
            phase: "finished",
            kind: None,
            target: None,
            prompt: None,
            requests: has_request.then_some(request).into_iter().collect(),
            requests_omitted: false,
            output: None,
            error: None,
            reason: None,
            warnings: Vec::new(),
            usage: None,
            reused: false,
            started_at: 0,
            finished_at: None,
        }
    }

    #[test]
    fn requests_are_left_out_after_those_that_fill_the_list() {
        let mut steps =
            [("/a", true), ("/b", true), ("/c", false), ("/d", true)].map(|(name, has)| build_step(name, has));
        let list = |steps: &[StepDetails]| {
            steps.iter().map(|step| (step.requests.len(), step.requests_omitted)).collect::<Vec<_>>()
        };
        omit_requests_beyond(&mut steps, 150);
        assert_eq!(list(&steps), [(1, false), (1, false), (0, false), (0, true)]);
        omit_requests_beyond(&mut steps, 10);
        assert_eq!(list(&steps), [(1, false), (0, true), (0, false), (0, true)], "the first request is never left out");
    }
}
