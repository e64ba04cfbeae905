//! The scripted world of a case: answers of models, servers, pages and functions, and a record of their requests.

use std::collections::HashMap;
use std::sync::Arc;

use flowloom_core::chat::{Role, Usage};
use flowloom_core::code::Code;
use flowloom_core::effect::{
    CallRequest, GenerateReply, GenerateRequest, HttpReply, HttpRequest, Purpose, ScrapeRequest,
};
use flowloom_core::error::StepFailure;
use flowloom_core::plan::{Capture, EffectClass};
use flowloom_core::value::{Map, Value};
use flowloom_runtime::effects::{
    ChildEffects, Clock, EffectContext, EffectFuture, Effects, Functions, HttpSender, Model, NoCodeRunner, Price,
    Scraper,
};
use flowloom_runtime::sim::SimClock;
use parking_lot::{Mutex, MutexGuard};

use crate::observe::{StepRequest, describe_call};

/// Default context window in tokens.
const DEFAULT_WINDOW_TOKENS: i64 = 8192;

/// The world of one case.
pub(crate) struct CaseWorld {
    pub(crate) clock: SimClock,
    case: Value,
    state: Mutex<WorldState>,
}

#[derive(Default)]
struct WorldState {
    answers: usize,
    turns: HashMap<String, usize>,
    trace: WorldTrace,
    is_running: bool,
    denied: Option<String>,
}

/// Requests that the world received.
#[derive(Clone, Default)]
pub(crate) struct WorldTrace {
    pub(crate) requests: Vec<HttpRequest>,
    pub(crate) prompts: Vec<Value>,
    /// The same calls of models, with everything that was sent.
    pub(crate) asked: Vec<GenerateRequest>,
    pub(crate) scrapes: Vec<Value>,
    pub(crate) calls: Vec<Value>,
    /// All requests of steps, each with its step.
    pub(crate) sent: Vec<StepRequest>,
}

impl CaseWorld {
    pub(crate) fn new(case: &Value) -> Arc<CaseWorld> {
        Arc::new(CaseWorld { clock: SimClock::new(1_700_000_000_000), case: case.clone(), state: Mutex::default() })
    }

    /// Denies one function to every agent.
    pub(crate) fn deny_function(&self, function: &str) {
        self.lock_state().denied = Some(function.to_owned());
    }

    /// Marks the start of the run: from here on, capability checks are not recorded.
    pub(crate) fn mark_running(&self) {
        self.lock_state().is_running = true;
    }

    pub(crate) fn trace(&self) -> WorldTrace {
        self.lock_state().trace.clone()
    }

    pub(crate) fn to_effects(self: &Arc<CaseWorld>) -> Effects {
        Effects {
            model: self.clone(),
            http: self.clone(),
            scraper: self.clone(),
            functions: self.clone(),
            code: Arc::new(NoCodeRunner),
            clock: Arc::new(self.clock.clone()),
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, WorldState> {
        self.state.lock()
    }

    fn note_request(&self, context: &EffectContext, text: String) {
        self.lock_state().trace.sent.push(StepRequest { path: context.path.clone(), text });
    }

    fn next_answer(&self, request: &GenerateRequest) -> Result<Option<String>, StepFailure> {
        if let Purpose::Summary { characters, part, .. } = request.purpose {
            // A single text for the whole summary, however many parts it has.
            return Ok((part == 0).then(|| format!("SUMMARY({characters})")));
        }
        let mut state = self.lock_state();
        let messages = request.messages.iter().map(|message| {
            let role = if message.role == Role::User { "user" } else { "system" };
            Value::map([("role", Value::from(role)), ("content", message.content.as_str().into())])
        });
        let messages = Value::list(messages.collect());
        state.trace.prompts.push(messages);
        state.trace.asked.push(request.clone());
        let index = state.answers;
        state.answers += 1;
        let prompt = request.messages.last().map(|message| message.content.as_str()).unwrap_or_default();
        match self.case.get("mock_llm").and_then(Value::as_list).and_then(|answers| answers.get(index)) {
            None => Ok(Some(format!("LLM({prompt})"))),
            Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.to_string())),
            Some(other) => {
                let error = other.get("error").and_then(Value::as_str).unwrap_or("failed");
                Err(StepFailure::new(Code::ModelFailed, error))
            }
        }
    }

    fn next_behaviour(&self, function: &str) -> Option<Value> {
        let list = self.case.get("script")?.get(function)?;
        let items = list.as_list()?;
        let mut state = self.lock_state();
        let turn = state.turns.entry(function.to_owned()).or_default();
        let item = items.get((*turn).min(items.len().saturating_sub(1))).cloned();
        *turn += 1;
        item
    }
}

impl Model for CaseWorld {
    fn resolve(&self, named: Option<&str>) -> Result<String, StepFailure> {
        Ok(named.filter(|name| !name.is_empty()).unwrap_or("scripted:case").to_owned())
    }

    fn generate_reply<'a>(
        &'a self,
        request: &'a GenerateRequest,
        context: &'a EffectContext,
    ) -> EffectFuture<'a, GenerateReply> {
        Box::pin(async move {
            self.note_request(context, describe_call(request));
            let text = self.next_answer(request)?;
            Ok(GenerateReply { text, tool_calls: Vec::new(), usage: Usage::none(), ..GenerateReply::default() })
        })
    }

    fn context_window(&self, _model: &str) -> u64 {
        let limit = self.case.get("mock_context_limit").and_then(Value::as_i64).unwrap_or(DEFAULT_WINDOW_TOKENS);
        u64::try_from(limit).unwrap_or(0)
    }

    fn count_tokens(&self, _model: &str, text: &str) -> u64 {
        (text.chars().count() as u64).div_ceil(4)
    }

    fn default_max_tokens(&self, _model: &str) -> u64 {
        1024
    }

    fn find_price(&self, _model: &str) -> Option<Price> {
        Some(Price { input: 0, output: 0 })
    }
}

impl HttpSender for CaseWorld {
    fn send_request<'a>(&'a self, request: &'a HttpRequest, context: &'a EffectContext) -> EffectFuture<'a, HttpReply> {
        Box::pin(async move {
            self.note_request(context, format!("{request:?}"));
            let mut request = request.clone();
            for _ in 0..MAX_REDIRECTS {
                let reply = self.mock_reply(&request)?;
                match follow_redirect(&request, &reply) {
                    Some(next) => request = next,
                    None => return Ok(reply),
                }
            }
            Err(StepFailure::new(Code::HttpFailed, "fetch failed"))
        })
    }
}

/// Maximum number of redirects to follow.
const MAX_REDIRECTS: usize = 20;

/// The request that a redirect leads to, as in `fetch`.
fn follow_redirect(request: &HttpRequest, reply: &HttpReply) -> Option<HttpRequest> {
    let (_, location) = reply.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("location"))?;
    let from = request.url.to_redacted_text();
    let origin = from.match_indices('/').nth(2).map_or(from.as_str(), |(at, _)| &from[..at]);
    let url = if location.starts_with('/') { format!("{origin}{location}") } else { location.clone() };
    let changes = match reply.status {
        301 | 302 => request.method == "POST",
        303 => true,
        307 | 308 => false,
        _ => return None,
    };
    let mut next = HttpRequest { url: url.as_str().into(), ..request.clone() };
    if changes {
        next.method = "GET".into();
        next.body = None;
        next.headers.retain(|(name, _)| !name.to_lowercase().starts_with("content-"));
    }
    Some(next)
}

impl CaseWorld {
    fn mock_reply(&self, request: &HttpRequest) -> Result<HttpReply, StepFailure> {
        self.lock_state().trace.requests.push(request.clone());
        let url = request.url.to_redacted_text();
        let mocks = self.case.get("mock_http").and_then(Value::as_list).unwrap_or_default();
        let fits = |mock: &&Value| {
            let mock_url = mock.get("url").and_then(Value::as_str).unwrap_or("*");
            let method = mock.get("method").and_then(Value::as_str);
            (mock_url == "*" || mock_url == url) && method.is_none_or(|method| method == request.method)
        };
        let Some(mock) = mocks.iter().find(fits) else {
            return Err(StepFailure::new(Code::HttpFailed, "fetch failed"));
        };
        let status = mock.get("status").and_then(Value::as_i64).unwrap_or(200);
        let body = mock.get("body").and_then(Value::as_str).unwrap_or_default().to_owned();
        let headers = mock.get("headers").and_then(Value::as_map).into_iter().flat_map(|map| map.iter());
        let headers = headers.filter_map(|(name, value)| Some((name.to_string(), value.as_str()?.to_owned())));
        Ok(HttpReply { status: u16::try_from(status).unwrap_or(0), headers: headers.collect(), body })
    }
}

impl Scraper for CaseWorld {
    fn fetch_page<'a>(&'a self, request: &'a ScrapeRequest, context: &'a EffectContext) -> EffectFuture<'a, String> {
        Box::pin(async move {
            self.note_request(context, format!("{request:?}"));
            let capture = if request.capture == Capture::Html { "html" } else { "text" };
            let asked = Value::map([("url", Value::from(request.url.as_str())), ("captureAs", capture.into())]);
            self.lock_state().trace.scrapes.push(asked);
            let page = self.case.get("mock_scrape").and_then(|pages| pages.get(&request.url));
            let content = page.filter(|page| page.get("success").is_none_or(Value::is_truthy));
            let content = content.and_then(|page| page.get("content")).and_then(Value::as_str);
            match content {
                None => {
                    let message = "URL could not be scraped and no content was found.";
                    Err(StepFailure::new(Code::ScrapeFailed, message))
                }
                Some("") => {
                    let message = "There was no content to be collected or read.";
                    Err(StepFailure::new(Code::ScrapeFailed, message))
                }
                Some(content) => Ok(content.to_owned()),
            }
        })
    }

    fn select_html(&self, html: &str, selector: &str) -> Result<Vec<String>, StepFailure> {
        let selector = scraper::Selector::parse(selector)
            .map_err(|error| StepFailure::new(Code::NoSelector, format!("{selector:?} is no selector: {error}")))?;
        Ok(scraper::Html::parse_document(html).select(&selector).map(|hit| hit.inner_html()).collect())
    }
}

impl Functions for CaseWorld {
    fn effect_class(&self, _request: &CallRequest) -> EffectClass {
        EffectClass::AtLeastOnce
    }

    fn check_agent(&self, _agent: &str) -> Result<(), StepFailure> {
        Ok(())
    }

    fn check_permission(&self, agent: &str, function: &str) -> Result<(), StepFailure> {
        let mut state = self.lock_state();
        if !state.is_running {
            let capability = function.split("::").next().unwrap_or_default();
            let payload = Value::map([
                ("agentId", Value::from(agent)),
                ("capability", capability.into()),
                ("resource", function.into()),
            ]);
            let call = [("fn", Value::from("security::check_capability")), ("payload", payload)];
            state.trace.calls.push(Value::map(call));
        }
        match &state.denied {
            Some(denied) if denied == function => {
                Err(StepFailure::new(Code::CapabilityDenied, format!("Agent {agent} denied: {function}")))
            }
            _ => Ok(()),
        }
    }

    fn call_function<'a>(
        &'a self,
        request: &'a CallRequest,
        context: &'a EffectContext,
        _below: &'a dyn ChildEffects,
    ) -> EffectFuture<'a, Value> {
        Box::pin(async move {
            let payload = request.payload.to_value();
            let call = [("fn", Value::from(&*request.function)), ("payload", payload.clone())];
            let call = Value::map(call);
            self.note_request(context, flowloom_core::render::to_json(&call));
            self.lock_state().trace.calls.push(call);
            let behaviour = self.next_behaviour(&request.function);
            let behaviour = behaviour.as_ref().and_then(Value::as_map).cloned().unwrap_or_else(echo_behaviour);
            if let Some(delay) = behaviour.get("delay_ms").and_then(Value::as_i64) {
                self.clock.sleep_for(delay.unsigned_abs()).await;
            }
            if let Some(message) = behaviour.get("throw") {
                let message = flowloom_core::render::render_text(message, flowloom_core::render::TextStyle::Json);
                return Err(StepFailure::new(Code::FunctionFailed, message));
            }
            if let Some(key) = behaviour.get("echo").and_then(Value::as_str) {
                return Ok(payload.get(key).cloned().unwrap_or_default());
            }
            Ok(behaviour.get("return").cloned().unwrap_or_default())
        })
    }
}

fn echo_behaviour() -> Map {
    Map::from_iter([("echo".into(), "prompt".into())])
}
