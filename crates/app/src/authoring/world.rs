//! The `World` of an authoring run: every effect is a recorded child step, every event goes into the journal.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use flowloom_author::rehearse::Rehearsal;
use flowloom_author::{Answer, Candidate, Event, Question, Trial, Wanted, World};
use flowloom_core::chat::{GenerateOptions, Message, Role};
use flowloom_core::effect::{CallRequest, GenerateRequest, Payload, Purpose, Request};
use flowloom_core::error::StepError;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::effects::{Model as _, Reply, Substeps};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::job::{How, read, value_of};
use super::trials::{Attempt, Found, Rehearse};
use super::{Author, functions};

/// The world of one stage.
pub(super) struct Recorded<'a> {
    author: &'a Author,
    how: &'a How,
    below: &'a dyn Substeps,
    /// Whether the warning about full-text-only search was emitted.
    has_warned: AtomicBool,
}

impl<'a> Recorded<'a> {
    pub(super) fn new(author: &'a Author, how: &'a How, below: &'a dyn Substeps) -> Recorded<'a> {
        Recorded { author, how, below, has_warned: AtomicBool::new(false) }
    }

    /// Calls a function as a child step.
    async fn call<T: DeserializeOwned>(&self, function: &str, arguments: &impl Serialize) -> Result<T, StepError> {
        let arguments = value_of(arguments)?.as_map().cloned().unwrap_or_default();
        let request = CallRequest { function: function.into(), payload: Payload::of(arguments) };
        read(&self.below.perform(Request::Call(request)).await?, "a recorded result")
    }

    /// Warns that the search uses full text only, which finds less.
    fn warn(&self, reason: &str) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            let message = format!("block search uses full text only: {reason}");
            self.tell(Event::Stage { stage: flowloom_author::search::STAGE, status: "running", message });
        }
    }
}

impl World for Recorded<'_> {
    fn ask<'a>(&'a self, question: &'a Question) -> Reply<'a, Answer> {
        Box::pin(async move {
            let system = Message::new(Role::System, question.system.as_str());
            let messages: Vec<Message> = std::iter::once(system).chain(question.messages.iter().cloned()).collect();
            let request = GenerateRequest {
                model: self.author.models.resolve(self.how.model.as_deref())?,
                messages: messages.into(),
                tools: Vec::new(),
                schema: question.schema.clone(),
                options: GenerateOptions::default(),
                purpose: Purpose::Judged,
            };
            let asked = Instant::now();
            let said = self.below.perform(Request::Generate(Box::new(request))).await?;
            let text = said.as_str().unwrap_or_default().to_owned();
            Ok(Answer { text, elapsed: asked.elapsed().as_secs_f64() })
        })
    }

    fn find<'a>(&'a self, wanted: &'a Wanted) -> Reply<'a, Vec<Candidate>> {
        Box::pin(async move {
            let found: Found =
                self.call(functions::FIND, &Map::from_iter([("wanted".into(), value_of(wanted)?)])).await?;
            found.by_words.iter().for_each(|reason| self.warn(reason));
            Ok(found.candidates)
        })
    }

    fn attempt<'a>(&'a self, block: &'a Value, inputs: &'a Value) -> Reply<'a, Trial> {
        Box::pin(async move {
            let (block, inputs, model) = (block.clone(), inputs.clone(), self.how.block_model.clone());
            self.call(functions::ATTEMPT, &Attempt { block, inputs, model }).await
        })
    }

    fn rehearse<'a>(&'a self, pipeline: &'a Value, blocks: &'a [Value]) -> Reply<'a, Rehearsal> {
        Box::pin(async move {
            let definition = flowloom_author::wire::definition(pipeline, blocks);
            let model = self.how.block_model.clone();
            self.call(functions::REHEARSE, &Rehearse { definition, model }).await
        })
    }

    fn tell(&self, event: Event) {
        let mut data = event.payload().as_map().cloned().unwrap_or_default();
        // The record has a field for the name.
        data.shift_remove("type");
        self.below.tell(event.name(), data.into());
    }
}
