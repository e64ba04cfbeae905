//! Dry runs in the real sandbox, with scripted models.
#![allow(dead_code)]

use std::path::Path;
use std::sync::{Arc, Mutex};

use flowloom_author::rehearse::Given;
use flowloom_author::wire::definition;
use flowloom_author::{Answer, Candidate, Event, Question, Rehearsal, Rehearser, Settings, Trial, Wanted, World};
use flowloom_core::Path as StepPath;
use flowloom_core::chat::{GenerateOptions, Message, Role};
use flowloom_core::effect::{GenerateRequest, Purpose};
use flowloom_core::id::RunId;
use flowloom_core::json::parse_value;
use flowloom_core::limits::Limits;
use flowloom_core::value::Value;
use flowloom_formats::{Sources, pipeline::built_in};
use flowloom_models::{ModelSettings, Models};
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::{Context, Deltas, Reply};

/// The user of the dry runs.
pub(crate) const OWNER: &str = "ada";

pub(crate) fn value(text: &str) -> Value {
    parse_value(text).unwrap_or_else(|_| panic!("JSON: {text}"))
}

/// A model that answers from a file; none without a file.
pub(crate) fn models(script: Option<&Path>) -> Arc<Models> {
    let default = script.map(|script| format!("scripted:{}", script.display()));
    Arc::new(Models::new(ModelSettings { default, ..ModelSettings::default() }, Arc::new(|_: &str| None)))
}

pub(crate) fn rehearser(script: Option<&Path>, functions: &[&str]) -> Rehearser {
    Rehearser {
        model: models(script),
        named: None,
        code: conformance::code(),
        clock: Arc::new(SystemClock),
        sources: Sources { functions: functions.iter().map(|id| (*id).to_owned()).collect(), ..Sources::default() },
        limits: Limits::default(),
        owner: OWNER.to_owned(),
    }
}

/// A world for authoring: a scripted model, the blocks of the evaluation, and the sandbox.
pub(crate) struct Author {
    pub(crate) rehearser: Rehearser,
    /// Inputs of the dry runs of a wiring.
    pub(crate) given: Given,
    pub(crate) events: Mutex<Vec<Event>>,
}

impl Author {
    /// A world in which this conversation takes place.
    pub(crate) fn new(script: &Path, given: Given) -> Author {
        Author { rehearser: rehearser(Some(script), &[]), given, events: Mutex::default() }
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings { sources: self.rehearser.sources.clone(), ..Settings::default() }
    }

    /// Number of events with this name.
    pub(crate) fn told(&self, name: &str) -> usize {
        self.events.lock().expect("lock").iter().filter(|event| event.name() == name).count()
    }
}

impl World for Author {
    fn ask<'a>(&'a self, question: &'a Question) -> Reply<'a, Answer> {
        Box::pin(async move {
            let model = &self.rehearser.model;
            let system = Message::new(Role::System, &question.system);
            let messages: Vec<Message> = std::iter::once(system).chain(question.messages.iter().cloned()).collect();
            let request = GenerateRequest {
                model: model.resolve(None)?,
                messages: messages.into(),
                tools: Vec::new(),
                schema: question.schema.clone(),
                options: GenerateOptions::default(),
                purpose: Purpose::Judged,
            };
            let text = model.generate(&request, &context()).await?.text.unwrap_or_default();
            Ok(Answer { text, elapsed: 0.0 })
        })
    }

    fn find<'a>(&'a self, wanted: &'a Wanted) -> Reply<'a, Vec<Candidate>> {
        let is_called = |block: &&Value| block.get("id").and_then(Value::as_str) == Some(&wanted.suggested_id);
        let found =
            built_in().iter().filter(is_called).map(|block| Candidate { block: block.clone(), similarity: Some(1.0) });
        let found = found.collect();
        Box::pin(async move { Ok(found) })
    }

    fn attempt<'a>(&'a self, block: &'a Value, inputs: &'a Value) -> Reply<'a, Trial> {
        Box::pin(async move { Ok(self.rehearser.attempt(block, inputs).await?.into_trial()) })
    }

    fn rehearse<'a>(&'a self, pipeline: &'a Value, blocks: &'a [Value]) -> Reply<'a, Rehearsal> {
        Box::pin(async move { self.rehearser.rehearse(&definition(pipeline, blocks), &self.given).await })
    }

    fn tell(&self, event: Event) {
        self.events.lock().expect("lock").push(event);
    }
}

struct NoDeltas;

impl Deltas for NoDeltas {
    fn push(&self, _path: &StepPath, _attempt: u32, _text: &str) {}
}

fn context() -> Context {
    Context {
        run: RunId::new(0, [2; 10]),
        path: StepPath::root(),
        attempt: 1,
        owner: OWNER.into(),
        agent: None,
        depth: 0,
        purse: None,
        deltas: Arc::new(NoDeltas),
    }
}
