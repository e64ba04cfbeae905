//! Scripted effects for the runtime's tests: seeded latencies on virtual time, and a count of the sent requests.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use flowloom_core::chat::{GenerateOptions, Message, Role, ToolCall, Usage};
use flowloom_core::code::Code;
use flowloom_core::effect::{
    CallRequest, GenerateReply, GenerateRequest, HttpReply, HttpRequest, Payload, Purpose, PythonReply, PythonRequest,
    Request, ScrapeRequest, ScriptRequest,
};
use flowloom_core::error::StepFailure;
use flowloom_core::hash::Hasher;
use flowloom_core::plan::EffectClass;
use flowloom_core::rich::Rich;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::effects::{
    self, ChildEffects, Clock, EffectContext, EffectFuture, Effects, Functions, HttpSender, Model, Price, Scraper,
};
use flowloom_runtime::sim::SimClock;

/// The effects of the tests' runs.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) clock: SimClock,
    seed: u64,
    /// Number of sends by path and idempotency key.
    pub(crate) sent: Arc<Mutex<BTreeMap<String, u32>>>,
    /// Whether functions called `repairable` and `stored` work.
    is_repaired: Arc<AtomicBool>,
    /// Number of effects that do not reach the store before it is back.
    pub(crate) store_failures: Arc<AtomicU32>,
}

impl World {
    pub(crate) fn new(seed: u64) -> World {
        World {
            clock: SimClock::new(1_000_000),
            seed,
            sent: Arc::default(),
            is_repaired: Arc::default(),
            store_failures: Arc::default(),
        }
    }

    /// Fails if the store cannot be reached.
    fn read_store(&self) -> Result<(), StepFailure> {
        let relaxed = Ordering::Relaxed;
        match self.store_failures.fetch_update(relaxed, relaxed, |left| left.checked_sub(1)) {
            Ok(_) => Err(StepFailure::new(Code::StoreUnreachable, "the database cannot be reached")),
            Err(_) => Ok(()),
        }
    }

    /// Lets functions called `repairable` and `stored` work.
    #[allow(dead_code, reason = "used by one of the tests that share this module")]
    pub(crate) fn repair(&self) {
        self.is_repaired.store(true, Ordering::Relaxed);
    }

    pub(crate) fn make_effects(&self) -> Effects {
        let world = Arc::new(self.clone());
        Effects {
            model: world.clone(),
            http: world.clone(),
            scraper: world.clone(),
            functions: world.clone(),
            code: world,
            clock: Arc::new(self.clock.clone()),
        }
    }

    /// Waits for the latency of an attempt: 0 to 15 ms, derived from seed and path.
    async fn wait_for_latency(&self, context: &EffectContext) {
        let key = format!("{} {}", context.path, context.idempotency_key());
        *self.sent.lock().expect("not poisoned").entry(key).or_default() += 1;
        let hash = Hasher::new().add_number(self.seed).add_text(context.path.as_str()).finish();
        let latency = u64::from(hash.as_bytes()[0] % 16);
        if latency > 0 {
            self.clock.sleep_for(latency).await;
        }
    }
}

impl Model for World {
    fn resolve(&self, named: Option<&str>) -> Result<String, StepFailure> {
        Ok(named.unwrap_or("test:model").to_owned())
    }

    fn generate_reply<'a>(
        &'a self,
        request: &'a GenerateRequest,
        context: &'a EffectContext,
    ) -> EffectFuture<'a, GenerateReply> {
        Box::pin(async move {
            self.read_store()?;
            self.wait_for_latency(context).await;
            context.deltas.push(&context.path, context.attempt, "answer");
            let prompt = request.messages.last().map(|message| message.content.clone()).unwrap_or_default();
            let asked = request.messages.iter().all(|message| message.role != Role::Tool);
            let first_round = !request.tools.is_empty() && asked;
            let tool_calls = if first_round {
                let arguments = Value::map([("n", Value::from(1))]);
                let known = ToolCall::new("c1", "add", arguments);
                let unknown = ToolCall::new("c2", "rm", Value::Null);
                // A workflow by the name of its original system; most agents do not have one.
                let flow = ToolCall::new("c3", "flow_g", Value::Null);
                vec![known, unknown, flow]
            } else {
                Vec::new()
            };
            let usage = Usage { input_tokens: 10, output_tokens: 5, micro_usd: Some(3) };
            Ok(GenerateReply { text: Some(format!("M({prompt})")), tool_calls, usage, ..GenerateReply::default() })
        })
    }

    fn context_window(&self, _model: &str) -> u64 {
        20
    }

    fn count_tokens(&self, _model: &str, text: &str) -> u64 {
        text.len() as u64 / 4
    }

    fn default_max_tokens(&self, _model: &str) -> u64 {
        100
    }

    fn find_price(&self, _model: &str) -> Option<Price> {
        Some(Price { input: 1_000_000, output: 2_000_000 })
    }
}

impl HttpSender for World {
    fn send_request<'a>(&'a self, request: &'a HttpRequest, context: &'a EffectContext) -> EffectFuture<'a, HttpReply> {
        Box::pin(async move {
            self.wait_for_latency(context).await;
            let body = format!("{{\"to\":\"{}\"}}", request.url.to_redacted_text());
            Ok(HttpReply { status: 200, headers: Vec::new(), body })
        })
    }
}

impl Scraper for World {
    fn fetch_page<'a>(&'a self, _request: &'a ScrapeRequest, context: &'a EffectContext) -> EffectFuture<'a, String> {
        Box::pin(async move {
            self.wait_for_latency(context).await;
            Ok("a page of text that is long enough to need a summary, since the window is small".to_owned())
        })
    }

    fn select_html(&self, html: &str, _selector: &str) -> Result<Vec<String>, StepFailure> {
        Ok(vec![html.to_owned()])
    }
}

impl Functions for World {
    fn effect_class(&self, request: &CallRequest) -> EffectClass {
        if request.function.starts_with("once") { EffectClass::AtMostOnce } else { EffectClass::AtLeastOnce }
    }

    fn check_agent(&self, _agent: &str) -> Result<(), StepFailure> {
        Ok(())
    }

    fn check_permission(&self, agent: &str, function: &str) -> Result<(), StepFailure> {
        match agent {
            "root" => Ok(()),
            _ => Err(StepFailure::new(Code::CapabilityDenied, format!("Agent {agent} denied: {function}"))),
        }
    }

    fn call_function<'a>(
        &'a self,
        request: &'a CallRequest,
        context: &'a EffectContext,
        below: &'a dyn ChildEffects,
    ) -> EffectFuture<'a, Value> {
        Box::pin(async move {
            self.read_store()?;
            match &*request.function {
                "hang" => self.clock.sleep_for(u64::MAX).await,
                "once late" if !self.is_repaired.load(Ordering::Relaxed) => {
                    self.wait_for_latency(context).await;
                    self.clock.sleep_for(u64::MAX).await;
                }
                _ => self.wait_for_latency(context).await,
            }
            match &*request.function {
                "flaky" if context.attempt < 3 => {
                    Err(StepFailure::new_retryable(Code::FunctionFailed, format!("flaky {}", context.attempt)))
                }
                "repairable" if !self.is_repaired.load(Ordering::Relaxed) => {
                    Err(StepFailure::new(Code::FunctionFailed, "not repaired"))
                }
                "stored" | "once stored" if !self.is_repaired.load(Ordering::Relaxed) => {
                    Err(StepFailure::new(Code::StoreUnreachable, "the database cannot be reached"))
                }
                "broken" => Err(StepFailure::new(Code::FunctionFailed, "broken")),
                "big" => Ok("x".repeat(1000).into()),
                "flow::g" => {
                    let usage = Usage { input_tokens: 7, output_tokens: 2, micro_usd: Some(1) };
                    context.allowance.iter().for_each(|allowance| allowance.add_usage(&usage));
                    Ok(Value::map([("text", Value::from("seen")), ("is_final", true.into())]))
                }
                "asks" => run_child_effects(below).await,
                "posts" => run_posts(below).await,
                name => Ok(format!("{name}:{}", context.path).into()),
            }
        })
    }
}

/// A function that requests child effects and reports progress.
async fn run_child_effects(below: &dyn ChildEffects) -> Result<Value, StepFailure> {
    below.report_progress("begun", Value::Null);
    let messages = vec![Message::new(Role::User, "from a function")].into();
    let (model, options) = ("test:model".to_owned(), GenerateOptions::default());
    let schema = Some(Value::map([("type", Value::from("object"))]));
    let asked = GenerateRequest { model, messages, tools: Vec::new(), schema, options, purpose: Purpose::Judged };
    let prompt = below.perform_request(Request::Generate(Box::new(asked))).await?;
    below.report_progress("heard", prompt.clone());
    let call = CallRequest { function: "inner".into(), payload: Payload::from_arguments(Map::new()) };
    let inner = below.perform_request(Request::Call(call)).await?;
    Ok(Value::list(vec![prompt, inner]))
}

/// A function that requests two effects that must not be repeated.
async fn run_posts(below: &dyn ChildEffects) -> Result<Value, StepFailure> {
    let request =
        |function: &str| CallRequest { function: function.into(), payload: Payload::from_arguments(Map::new()) };
    let kept = below.perform_request(Request::Call(request("once kept"))).await?;
    let late = below.perform_request(Request::Call(request("once late"))).await?;
    Ok(Value::list(vec![kept, late]))
}

impl effects::CodeRunner for World {
    fn run_python<'a>(
        &'a self,
        request: &'a PythonRequest,
        host: &'a dyn effects::SandboxHost,
        context: &'a EffectContext,
    ) -> EffectFuture<'a, PythonReply> {
        Box::pin(async move {
            self.read_store()?;
            self.wait_for_latency(context).await;
            let url = Rich::from("http://example.test/block");
            let method = "GET".into();
            let request_of = HttpRequest { method, url, headers: Vec::new(), body: None, uses_tool_host: false };
            let reply = host.send_http(request_of).await?;
            let prompt =
                host.generate_reply(vec![Message::new(Role::User, "from a block")]).await?.text.unwrap_or_default();
            let output = Value::map([
                ("inputs", request.inputs.clone()),
                ("body", reply.body.into()),
                ("said", prompt.into()),
                ("before", request.memory.clone()),
            ]);
            let memory = vec![("block".to_owned(), Some(context.path.as_str().into())), ("gone".to_owned(), None)];
            Ok(PythonReply { output, memory, queued_ms: None })
        })
    }

    fn evaluate_script<'a>(
        &'a self,
        request: &'a ScriptRequest,
        context: &'a EffectContext,
    ) -> EffectFuture<'a, Option<Value>> {
        Box::pin(async move {
            self.read_store()?;
            self.wait_for_latency(context).await;
            let read: String = request.names.iter().map(|(name, value)| format!("{name}={value:?};")).collect();
            Ok(Some(format!("{} {} {:x} {read}", request.source, context.path, request.seed).into()))
        })
    }
}
