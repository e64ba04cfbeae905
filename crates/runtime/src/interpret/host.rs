//! What a code block asks of its run while it runs: each request is an effect of its own, recorded below the block.
//!
//! A block whose outcome is recorded is not run again, so nothing looks for what is recorded below it; a block that a
//! crash caught in flight runs again and gets what it was given before.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::http::{HttpReply, HttpRequest};
use flowloom_core::path::Key;
use flowloom_core::plan::Policy;
use flowloom_core::request::{GenerateOptions, GenerateRequest, Generated, Message, Purpose, Request};
use flowloom_core::value::Value;

use super::{Halt, Interpreter, Place};
use crate::effects::{Host, Reply};

/// The run as one attempt of a block sees it.
pub(super) struct BlockHost<'a> {
    interpreter: &'a Interpreter,
    place: Place,
    asked: AtomicUsize,
    halt: Mutex<Option<Halt>>,
}

impl<'a> BlockHost<'a> {
    pub(super) fn new(interpreter: &'a Interpreter, place: &Place, attempt: u32) -> BlockHost<'a> {
        let below = if attempt > 1 { place.path.visit(u64::from(attempt)) } else { place.path.clone() };
        let place = Place { inside: true, ..place.at(below) };
        BlockHost { interpreter, place, asked: AtomicUsize::new(0), halt: Mutex::new(None) }
    }

    /// What ended the run while the block asked for something.
    pub(super) fn halted(self) -> Option<Halt> {
        self.halt.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self, kind: &str, request: Request) -> Result<Value, StepError> {
        let count = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let place = self.place.at(self.place.path.child(&Key::nth(kind, count)));
        let asked = self.interpreter.attempts(&Policy::default(), &place, || Ok(request.clone())).await;
        match asked {
            Ok(output) => Ok(output.unwrap_or_default()),
            Err(Halt::Failed(error, _)) => Err(error),
            Err(halt) => {
                *self.halt.lock().unwrap_or_else(PoisonError::into_inner) = Some(halt);
                Err(StepError::new(Code::StepRefused, "the run ends"))
            }
        }
    }
}

impl Host for BlockHost<'_> {
    fn http<'a>(&'a self, request: HttpRequest) -> Reply<'a, HttpReply> {
        Box::pin(async move {
            let output = self.ask("http", Request::Exchange(request)).await?;
            HttpReply::from_value(&output)
                .ok_or_else(|| StepError::new(Code::HttpFailed, "the recorded reply is not a reply"))
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
            let output = self.ask("generate", Request::Generate(Box::new(request))).await?;
            Ok(Generated { text: output.as_str().map(str::to_owned), ..Generated::default() })
        })
    }
}
