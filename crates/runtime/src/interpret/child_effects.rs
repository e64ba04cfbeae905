//! Child effects: the requests of a code block or a function while it runs. Each one is an effect of its own, recorded
//! below the step that requests it.
//!
//! A step with a recorded outcome is not performed again, so its child effects are not looked up. A step that a crash
//! interrupted is performed again and receives the recorded results.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use flowloom_core::chat::{GenerateOptions, Message};
use flowloom_core::code::Code;
use flowloom_core::effect::{GenerateReply, GenerateRequest, HttpReply, HttpRequest, Purpose, Request};
use flowloom_core::error::StepFailure;
use flowloom_core::event::ChildSuspension;
use flowloom_core::id::RunId;
use flowloom_core::path::{Key, Path};
use flowloom_core::plan::Policy;
use flowloom_core::value::Value;

use super::{Interpreter, Interrupt, StepContext};
use crate::effects::{BoxFuture, ChildEffects, EffectFuture, SandboxHost};
use crate::log::{ActivityScope, HostGuard};

/// The run as seen by one attempt of a step. Most steps have no child effects, so this is small and clones nothing
/// until the first one.
pub(super) struct ChildEffectRunner<'a> {
    interpreter: &'a Interpreter,
    place: &'a StepContext,
    attempt: u32,
    scope: Arc<ActivityScope>,
    _host: HostGuard,
    request_count: AtomicUsize,
    progress_count: AtomicUsize,
    interrupt: Mutex<Option<Box<Interrupt>>>,
}

impl<'a> ChildEffectRunner<'a> {
    pub(super) fn new(
        interpreter: &'a Interpreter,
        place: &'a StepContext,
        attempt: u32,
        scope: &Arc<ActivityScope>,
    ) -> ChildEffectRunner<'a> {
        let (request_count, progress_count, interrupt) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(None));
        ChildEffectRunner {
            interpreter,
            place,
            attempt,
            scope: scope.clone(),
            _host: interpreter.log.register_host(&place.path),
            request_count,
            progress_count,
            interrupt,
        }
    }

    /// The interrupt of the run, if one occurred during a child effect.
    pub(super) fn into_interrupt(self) -> Option<Interrupt> {
        self.interrupt.into_inner().unwrap_or_else(PoisonError::into_inner).map(|halt| *halt)
    }

    /// The path of the next child effect of a kind.
    fn next_path(&self, kind: &str, counter: &AtomicUsize) -> Path {
        let key = Key::numbered_key(kind, counter.fetch_add(1, Ordering::Relaxed) + 1);
        match self.attempt {
            0 | 1 => self.place.path.child_path(&key),
            attempt => self.place.path.visit_path(u64::from(attempt)).child_path(&key),
        }
    }

    async fn perform_child(&self, request: Request) -> Result<Value, StepFailure> {
        let place = StepContext {
            enclosing: Some(self.scope.clone()),
            ..self.place.with_path(self.next_path(request.kind_name(), &self.request_count))
        };
        let request_count = self.interpreter.run_attempts(&Policy::default(), &place, || Ok(request.clone())).await;
        match request_count {
            Ok(output) => Ok(output.unwrap_or_default()),
            Err(Interrupt::Failed(error, _)) => Err(error),
            Err(halt) => {
                let reason = match &halt {
                    // The step reports why the run ends, for example that its budget is used up.
                    Interrupt::Limit(_, error, _) => error.clone(),
                    _ => StepFailure::new(Code::StepRefused, "the run is ending"),
                };
                *self.interrupt.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(halt));
                Err(reason)
            }
        }
    }
}

impl SandboxHost for ChildEffectRunner<'_> {
    fn send_http<'a>(&'a self, request: HttpRequest) -> EffectFuture<'a, HttpReply> {
        Box::pin(async move {
            let output = self.perform_child(Request::HttpExchange(request)).await?;
            HttpReply::from_value(&output)
                .ok_or_else(|| StepFailure::new(Code::HttpFailed, "the recorded value is not an HTTP reply"))
        })
    }

    fn generate_reply<'a>(&'a self, messages: Vec<Message>) -> EffectFuture<'a, GenerateReply> {
        Box::pin(async move {
            let request = GenerateRequest {
                model: self.interpreter.effects.model.resolve(None)?,
                messages: messages.into(),
                tools: Vec::new(),
                schema: None,
                options: GenerateOptions::default(),
                purpose: Purpose::Step,
            };
            let output = self.perform_child(Request::Generate(Box::new(request))).await?;
            Ok(GenerateReply { text: output.as_str().map(str::to_owned), ..GenerateReply::default() })
        })
    }
}

impl ChildEffects for ChildEffectRunner<'_> {
    fn perform_request<'a>(&'a self, request: Request) -> EffectFuture<'a, Value> {
        Box::pin(self.perform_child(request))
    }

    fn report_progress(&self, name: &'static str, data: Value) {
        self.interpreter.log.report_progress(&self.next_path("progress", &self.progress_count), name, data);
    }

    fn resume_count(&self) -> u64 {
        self.interpreter.log.resume_count()
    }

    fn wait_for_child<'a>(&'a self, child: ChildSuspension, seen: u64) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let _paused = self.interpreter.pause_enclosing(Some(&self.scope));
            self.interpreter.log.wait_for_child(&self.place.path, self.attempt, child, seen).await;
        })
    }

    fn record_child_resumed(&self, run: RunId) {
        self.interpreter.log.record_child_resumed(&self.place.path, self.attempt, run);
    }
}
