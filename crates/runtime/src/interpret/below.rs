//! Child effects: the requests of a code block or a function while it runs. Each one is an effect of its own, recorded
//! below the step that requests it.
//!
//! A step with a recorded outcome is not performed again, so its child effects are not looked up. A step that a crash
//! interrupted is performed again and receives the recorded results.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use flowloom_core::chat::{GenerateOptions, Message};
use flowloom_core::code::Code;
use flowloom_core::effect::{GenerateRequest, Generated, HttpReply, HttpRequest, Purpose, Request};
use flowloom_core::error::StepError;
use flowloom_core::path::{Key, Path};
use flowloom_core::plan::Policy;
use flowloom_core::value::Value;

use super::{Halt, Interpreter, Place};
use crate::effects::{Host, Reply, Substeps};

/// The run as seen by one attempt of a step. Most steps have no child effects, so this is small and clones nothing
/// until the first one.
pub(super) struct Below<'a> {
    interpreter: &'a Interpreter,
    place: &'a Place,
    attempt: u32,
    asked: AtomicUsize,
    told: AtomicUsize,
    halt: Mutex<Option<Box<Halt>>>,
}

impl<'a> Below<'a> {
    pub(super) fn new(interpreter: &'a Interpreter, place: &'a Place, attempt: u32) -> Below<'a> {
        let (asked, told, halt) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(None));
        Below { interpreter, place, attempt, asked, told, halt }
    }

    /// The interrupt of the run, if one occurred during a child effect.
    pub(super) fn halted(self) -> Option<Halt> {
        self.halt.into_inner().unwrap_or_else(PoisonError::into_inner).map(|halt| *halt)
    }

    /// The path of the next child effect of a kind.
    fn next(&self, kind: &str, counter: &AtomicUsize) -> Path {
        let key = Key::nth(kind, counter.fetch_add(1, Ordering::Relaxed) + 1);
        match self.attempt {
            0 | 1 => self.place.path.child(&key),
            attempt => self.place.path.visit(u64::from(attempt)).child(&key),
        }
    }

    async fn ask(&self, request: Request) -> Result<Value, StepError> {
        let place = Place { inside: true, ..self.place.at(self.next(request.kind(), &self.asked)) };
        let asked = self.interpreter.attempts(&Policy::default(), &place, || Ok(request.clone())).await;
        match asked {
            Ok(output) => Ok(output.unwrap_or_default()),
            Err(Halt::Failed(error, _)) => Err(error),
            Err(halt) => {
                *self.halt.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(halt));
                Err(StepError::new(Code::StepRefused, "the run is ending"))
            }
        }
    }
}

impl Host for Below<'_> {
    fn http<'a>(&'a self, request: HttpRequest) -> Reply<'a, HttpReply> {
        Box::pin(async move {
            let output = self.ask(Request::Exchange(request)).await?;
            HttpReply::from_value(&output)
                .ok_or_else(|| StepError::new(Code::HttpFailed, "the recorded value is not an HTTP reply"))
        })
    }

    fn generate<'a>(&'a self, messages: Vec<Message>) -> Reply<'a, Generated> {
        Box::pin(async move {
            let request = GenerateRequest {
                model: self.interpreter.effects.model.resolve(None)?,
                messages: messages.into(),
                tools: Vec::new(),
                schema: None,
                options: GenerateOptions::default(),
                purpose: Purpose::Step,
            };
            let output = self.ask(Request::Generate(Box::new(request))).await?;
            Ok(Generated { text: output.as_str().map(str::to_owned), ..Generated::default() })
        })
    }
}

impl Substeps for Below<'_> {
    fn perform<'a>(&'a self, request: Request) -> Reply<'a, Value> {
        Box::pin(self.ask(request))
    }

    fn tell(&self, name: &'static str, data: Value) {
        self.interpreter.log.tell(&self.next("told", &self.told), name, data);
    }
}
