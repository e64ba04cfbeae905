//! Cases of authoring: clarification conversations, and the stages from a goal to a pipeline. Blocks and pipelines are
//! executed in the real sandbox.
//!
//! Intentional differences from the original system are stated in the cases under `ours`: an unusable list of blocks is
//! an error; the wiring is validated and corrected until it passes; a block is run again after each fix and its outputs
//! are checked; and a block that could not be created ends the authoring instead of leaving a gap in the pipeline.

use std::sync::{Arc, Mutex, PoisonError};

use flowloom_author::clarify::{Clarified, Conversation, Said, Speaker, clarify};
use flowloom_author::rehearse::{Given, Prompts};
use flowloom_author::wire::definition;
use flowloom_author::{
    Answer, Candidate, Draft, Event, Question, Rehearsal, Rehearser, Settings, Trial, Wanted, World, think,
};
use flowloom_core::chat::Role;
use flowloom_core::limits::Limits;
use flowloom_core::render;
use flowloom_core::value::{Map, Value};
use flowloom_formats::Sources;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Reply;

use crate::expectation::Judge;
use crate::pipeline::Answers;

/// Similarity of a case's search results, which have no degrees.
const FOUND: f32 = 1.0;
/// Maximum number of search results.
const MOST_FOUND: usize = 5;

/// The fields of each event that a case compares. Prompts, raw texts, definitions, times and texts for people are left
/// out, and so are fields that the original system does not have.
const COMPARED: [(&str, &[&str]); 16] = [
    ("start", &["intent", "user_id"]),
    ("stage", &["stage", "status"]),
    ("llm_prompt", &["stage"]),
    ("llm_response", &["stage"]),
    ("stage_result", &["stage", "status", "count", "matched", "missing", "next", "created", "failed"]),
    ("decompose_blocks", &["blocks"]),
    ("validation", &["stage", "valid", "error"]),
    ("search_found", &["suggested_id", "matched_block_id", "name", "description"]),
    ("search_missing", &["suggested_id", "description", "candidates_checked"]),
    ("creating_block", &["index", "total", "suggested_id", "description"]),
    ("block_created", &["block_id", "name", "description", "execution_type", "has_prompt", "has_source_code"]),
    ("block_test_passed", &["block_id"]),
    ("block_test_failed", &["block_id", "error", "retry"]),
    ("block_create_failed", &["block_id", "error"]),
    ("complete", &["status", "log", "pipeline"]),
    ("error", &["stage", "error"]),
];

/// Judges conversations, each with its own answers and expectation.
pub(crate) fn judge_clarify(case: &Value, expectation: &Map, judge: &mut Judge) {
    let cases = case.get("definition").and_then(|definition| definition.get("cases"));
    for (name, expected) in expectation {
        let (Some(case), Some(expected)) = (cases.and_then(|cases| cases.get(name)), expected.as_map()) else {
            judge.fail(format!("the key {name:?} is not known"));
            continue;
        };
        let world = Scripted::new(case.get("llm"), None);
        let clarified = match crate::block_on(clarify(&world, &conversation(case))) {
            Ok(clarified) => clarified,
            Err(error) => return judge.fail(format!("{name}: {error}")),
        };
        let asked = world.asked();
        for (key, expected) in expected {
            let actual = match &**key {
                "result" => in_short(&clarified, expected),
                "llm_calls" => (asked.len() as i64).into(),
                "last_call_roles" => asked.last().map(roles).unwrap_or_default(),
                other => return judge.fail(format!("the key {other:?} is not known")),
            };
            judge.compare(&format!("{name}.{key}"), expected, Some(&actual));
        }
    }
}

/// The original system mostly omits fields without a value.
fn in_short(clarified: &Clarified, expected: &Value) -> Value {
    let text = |text: &Option<String>| text.as_deref().map_or(Value::Null, Value::from);
    let fields = [("refined_intent", text(&clarified.refined_intent)), ("question", text(&clarified.question))];
    let told = fields.into_iter().filter(|(key, value)| *value != Value::Null || expected.get(key).is_some());
    Value::map(std::iter::once(("ready", clarified.ready.into())).chain(told))
}

fn conversation(case: &Value) -> Conversation {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let said = |said: &Value| {
        let role = if text(said, "role") == "assistant" { Speaker::Assistant } else { Speaker::User };
        Said { role, content: text(said, "content") }
    };
    let history = case.get("history").and_then(Value::as_list).unwrap_or_default().iter().map(said).collect();
    Conversation { message: text(case, "message"), history }
}

fn roles(question: &Question) -> Value {
    let name = |role| if role == Role::Assistant { "assistant" } else { "user" };
    let said = question.messages.iter().map(|message| name(message.role));
    Value::list(std::iter::once("system").chain(said).map(Value::from).collect())
}

/// Judges the authoring of a pipeline.
pub(crate) fn judge_think(case: &Value, expectation: &Map, judge: &mut Judge) {
    let text = |key: &str| case.get("input").and_then(|input| input.get(key)).and_then(Value::as_str);
    let mut draft = Draft::new(text("intent").unwrap_or_default(), text("user_id").unwrap_or("u1"));
    let world = Scripted::new(case.get("script"), case.get("definition").and_then(|given| given.get("registry")));
    let settings = Settings::default();
    // Only the events are compared: a client of the original event stream sees nothing else either.
    let _ = crate::block_on(think(&world, &settings, &mut draft));
    let events = world.events.lock().unwrap_or_else(PoisonError::into_inner);
    let names: Vec<&str> = events.iter().map(Event::name).collect();
    known_names(expectation, judge);
    judge.events(expectation, &names);
    let asked = world.asked();
    for (key, expected) in expectation {
        let actual = match &**key {
            "includes" | "excludes" => continue,
            "event_types" => Value::list(names.iter().copied().map(Value::from).collect()),
            "events_slim" => Value::list(events.iter().map(slim).collect()),
            // A failure is an event of the stream; the stream never ends without one.
            "raises" => Value::Null,
            "saved_blocks" => {
                let saved = draft.made.iter().filter_map(|made| made.block()?.get("id").cloned());
                Value::list(saved.collect())
            }
            "llm_calls" => (asked.len() as i64).into(),
            "create_user_prompts_mention_error" => Value::list(asked.iter().map(mentions_error).collect()),
            other => return judge.fail(format!("the key {other:?} is not known")),
        };
        judge.compare(key, expected, Some(&actual));
    }
}

/// Fails for an unknown event name, which `excludes` would never find.
fn known_names(expectation: &Map, judge: &mut Judge) {
    for key in ["includes", "excludes"] {
        for name in expectation.get(key).and_then(Value::as_list).into_iter().flatten() {
            if !COMPARED.iter().any(|(known, _)| Some(*known) == name.as_str()) {
                judge.fail(format!("there is no event {}", render::json(name)));
            }
        }
    }
}

fn slim(event: &Event) -> Value {
    let payload = event.payload();
    let keys = COMPARED.iter().find(|(name, _)| *name == event.name()).map_or(&[][..], |(_, keys)| keys);
    let told = keys.iter().filter_map(|key| Some((*key, payload.get(key)?.clone())));
    Value::map(std::iter::once(("type", Value::from(event.name()))).chain(told))
}

fn mentions_error(question: &Question) -> Value {
    let last = question.messages.last().map(|message| message.content.to_lowercase()).unwrap_or_default();
    last.contains("error").into()
}

/// Answers in the order of calls, a registry, and the sandbox.
struct Scripted {
    answers: Arc<Answers>,
    registry: Vec<Value>,
    asked: Mutex<Vec<Question>>,
    events: Mutex<Vec<Event>>,
}

impl Scripted {
    fn new(script: Option<&Value>, registry: Option<&Value>) -> Scripted {
        Scripted {
            answers: Arc::new(Answers::new(script)),
            registry: registry.and_then(Value::as_list).unwrap_or_default().to_vec(),
            asked: Mutex::default(),
            events: Mutex::default(),
        }
    }

    fn asked(&self) -> Vec<Question> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the query occurs in a block's id, name, description or tags.
    fn is_found(block: &Value, query: &str) -> bool {
        let texts = ["id", "name", "description"].into_iter().filter_map(|key| block.get(key));
        let tags = block.get("tags").and_then(Value::as_list).unwrap_or_default();
        let mut words = texts.chain(tags).filter_map(Value::as_str);
        words.any(|text| text.to_lowercase().contains(&query.to_lowercase()))
    }

    fn rehearser(&self) -> Rehearser {
        Rehearser {
            model: self.answers.clone(),
            named: None,
            code: crate::code(),
            clock: Arc::new(SystemClock),
            sources: Sources::default(),
            limits: Limits::default(),
            owner: "u1".to_owned(),
        }
    }
}

impl World for Scripted {
    fn ask<'a>(&'a self, question: &'a Question) -> Reply<'a, Answer> {
        Box::pin(async move {
            self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(question.clone());
            Ok(Answer { text: self.answers.next()?, elapsed: 0.0 })
        })
    }

    fn find<'a>(&'a self, wanted: &'a Wanted) -> Reply<'a, Vec<Candidate>> {
        let found = self.registry.iter().filter(|block| Scripted::is_found(block, &wanted.description));
        let found =
            found.take(MOST_FOUND).map(|block| Candidate { block: block.clone(), similarity: Some(FOUND) }).collect();
        Box::pin(async move { Ok(found) })
    }

    fn attempt<'a>(&'a self, block: &'a Value, inputs: &'a Value) -> Reply<'a, Trial> {
        Box::pin(async move { Ok(self.rehearser().attempt(block, inputs).await?.into_trial()) })
    }

    fn rehearse<'a>(&'a self, pipeline: &'a Value, blocks: &'a [Value]) -> Reply<'a, Rehearsal> {
        let given = Given { prompts: Prompts::Played, ..Given::default() };
        Box::pin(async move { self.rehearser().rehearse(&definition(pipeline, blocks), &given).await })
    }

    fn tell(&self, event: Event) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}
