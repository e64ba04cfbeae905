//! The effect server: it counts requests and answers each after a random time. Its answers depend only on the attempt.

use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::effect::{
    CallRequest, GenerateReply, GenerateRequest, HttpReply, HttpRequest, PythonReply, PythonRequest, ScrapeRequest,
    ScriptRequest,
};
use flowloom_core::error::StepFailure;
use flowloom_core::plan::EffectClass;
use flowloom_core::value::Value;
use flowloom_runtime::child_run::CallingStep;
use flowloom_runtime::effects::{
    ChildEffects, CodeRunner, EffectContext, EffectFuture, Effects, Functions, HttpSender, Model, Price, SandboxHost,
    Scraper,
};

use crate::plans::find_child_number;
use crate::world::{ProcessId, World};

/// Longest time that an effect takes, in milliseconds.
const MAX_EFFECT_MS: u64 = 120;

/// The effects of a process.
pub(crate) fn make_effects(world: &Arc<World>, process: ProcessId) -> Effects {
    let server = Arc::new(EffectServer { world: world.clone(), process });
    Effects {
        model: server.clone(),
        http: server.clone(),
        scraper: server.clone(),
        functions: server.clone(),
        code: server,
        clock: Arc::new(world.clock.clone()),
    }
}

struct EffectServer {
    world: Arc<World>,
    process: ProcessId,
}

impl EffectServer {
    async fn receive_request(&self, context: &EffectContext, class: EffectClass) {
        self.world.receive_request(self.process, context, class);
        self.world.sleep_up_to(MAX_EFFECT_MS).await;
    }
}

fn unused_error() -> StepFailure {
    StepFailure::new(Code::FunctionFailed, "no plan of the simulation uses this effect")
}

/// The consequence of a crash during a function.
pub(crate) fn function_class(function: &str) -> EffectClass {
    if function.starts_with("once") { EffectClass::AtMostOnce } else { EffectClass::AtLeastOnce }
}

impl Functions for EffectServer {
    fn effect_class(&self, request: &CallRequest) -> EffectClass {
        function_class(&request.function)
    }

    fn check_agent(&self, _agent: &str) -> Result<(), StepFailure> {
        Ok(())
    }

    fn check_permission(&self, _agent: &str, _function: &str) -> Result<(), StepFailure> {
        Ok(())
    }

    fn call_function<'a>(
        &'a self,
        request: &'a CallRequest,
        context: &'a EffectContext,
        below: &'a dyn ChildEffects,
    ) -> EffectFuture<'a, Value> {
        Box::pin(async move {
            let function = &*request.function;
            if let Some(number) = find_child_number(function) {
                return self.world.run_child(self.process, number, &CallingStep { context, effects: below }).await;
            }
            self.receive_request(context, function_class(function)).await;
            if function.ends_with("flaky") && !context.attempt.is_multiple_of(3) {
                return Err(StepFailure::new_retryable(Code::FunctionFailed, "try again"));
            }
            if function.ends_with("broken") {
                return Err(StepFailure::new(Code::FunctionFailed, "broken"));
            }
            Ok(format!("{function} {} {}", context.path, context.attempt).into())
        })
    }
}

impl CodeRunner for EffectServer {
    fn run_python<'a>(
        &'a self,
        _request: &'a PythonRequest,
        _host: &'a dyn SandboxHost,
        context: &'a EffectContext,
    ) -> EffectFuture<'a, PythonReply> {
        Box::pin(async move {
            self.receive_request(context, EffectClass::AtLeastOnce).await;
            let memory = vec![("block".to_owned(), Some(context.path.as_str().into())), ("k0".to_owned(), None)];
            Ok(PythonReply { output: Value::map([("path", context.path.as_str().into())]), memory, queued_ms: None })
        })
    }

    fn evaluate_script<'a>(
        &'a self,
        _request: &'a ScriptRequest,
        _context: &'a EffectContext,
    ) -> EffectFuture<'a, Option<Value>> {
        Box::pin(async { Err(unused_error()) })
    }
}

impl Model for EffectServer {
    fn resolve(&self, named: Option<&str>) -> Result<String, StepFailure> {
        Ok(named.unwrap_or("test:model").to_owned())
    }

    fn generate_reply<'a>(
        &'a self,
        _request: &'a GenerateRequest,
        _context: &'a EffectContext,
    ) -> EffectFuture<'a, GenerateReply> {
        Box::pin(async { Err(unused_error()) })
    }

    fn context_window(&self, _model: &str) -> u64 {
        1_000
    }

    fn count_tokens(&self, _model: &str, text: &str) -> u64 {
        text.len() as u64
    }

    fn default_max_tokens(&self, _model: &str) -> u64 {
        100
    }

    fn find_price(&self, _model: &str) -> Option<Price> {
        None
    }
}

impl HttpSender for EffectServer {
    fn send_request<'a>(&'a self, request: &'a HttpRequest, context: &'a EffectContext) -> EffectFuture<'a, HttpReply> {
        Box::pin(async move {
            let class = if request.method == "GET" { EffectClass::AtLeastOnce } else { EffectClass::AtMostOnce };
            self.receive_request(context, class).await;
            Ok(HttpReply { status: 200, headers: Vec::new(), body: "{}".to_owned() })
        })
    }
}

impl Scraper for EffectServer {
    fn fetch_page<'a>(&'a self, _request: &'a ScrapeRequest, _context: &'a EffectContext) -> EffectFuture<'a, String> {
        Box::pin(async { Err(unused_error()) })
    }

    fn select_html(&self, _html: &str, _selector: &str) -> Result<Vec<String>, StepFailure> {
        Err(unused_error())
    }
}
