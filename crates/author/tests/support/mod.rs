//! A scripted environment: answers in order, a registry, and the outputs of sources.
#![allow(dead_code)]

use std::collections::VecDeque;
use std::sync::Mutex;

use flowloom_author::{Answer, Candidate, Event, Question, Rehearsal, Trial, Wanted, World};
use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::json::parse_value;
use flowloom_core::render;
use flowloom_core::value::Value;
use flowloom_runtime::effects::Reply;

/// The environment, and a record of what happened in it.
#[derive(Default)]
pub(crate) struct Scripted {
    pub(crate) answers: Mutex<VecDeque<Result<String, StepError>>>,
    pub(crate) registry: Vec<Candidate>,
    /// Whether the sandbox is missing.
    pub(crate) has_no_sandbox: bool,
    /// The reports of dry runs, in order.
    pub(crate) rehearsals: Mutex<VecDeque<Result<Rehearsal, StepError>>>,
    pub(crate) questions: Mutex<Vec<Question>>,
    pub(crate) events: Mutex<Vec<Event>>,
    /// The source or prompt of each trial, and its inputs.
    pub(crate) trials: Mutex<Vec<(String, Value)>>,
}

pub(crate) fn value(text: &str) -> Value {
    parse_value(text).expect("JSON")
}

impl Scripted {
    /// An environment whose model returns these answers; `!FL1010` fails with that code.
    pub(crate) fn says<T: Into<String>>(answers: impl IntoIterator<Item = T>) -> Scripted {
        let answer = |said: String| match said.strip_prefix('!') {
            Some(code) => Err(StepError::new(Code::parse(code).expect("a code"), "the model is gone")),
            None => Ok(said),
        };
        let answers = answers.into_iter().map(|said| answer(said.into())).collect();
        Scripted { answers: Mutex::new(answers), ..Scripted::default() }
    }

    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.events.lock().expect("lock").iter().map(Event::name).collect()
    }

    /// The payloads of all events with a name.
    pub(crate) fn told(&self, name: &str) -> Vec<Value> {
        let events = self.events.lock().expect("lock");
        events.iter().filter(|event| event.name() == name).map(Event::payload).collect()
    }

    pub(crate) fn asked(&self) -> Vec<Question> {
        self.questions.lock().expect("lock").clone()
    }

    /// The last message of each question.
    pub(crate) fn wishes(&self) -> Vec<String> {
        self.asked().iter().map(|asked| asked.messages.last().expect("a message").content.clone()).collect()
    }

    pub(crate) fn tried(&self) -> Vec<String> {
        let trials = self.trials.lock().expect("lock");
        trials.iter().map(|(source, inputs)| format!("{source} {}", render::json(inputs))).collect()
    }
}

impl World for Scripted {
    fn ask<'a>(&'a self, question: &'a Question) -> Reply<'a, Answer> {
        Box::pin(async move {
            self.questions.lock().expect("lock").push(question.clone());
            let answer = self.answers.lock().expect("lock").pop_front();
            let text = answer.unwrap_or_else(|| Err(StepError::new(Code::ScriptExhausted, "no further answer")))?;
            Ok(Answer { text, elapsed: 0.5 })
        })
    }

    fn find<'a>(&'a self, _wanted: &'a Wanted) -> Reply<'a, Vec<Candidate>> {
        Box::pin(async move { Ok(self.registry.clone()) })
    }

    /// A source is the name of its behaviour.
    fn attempt<'a>(&'a self, block: &'a Value, inputs: &'a Value) -> Reply<'a, Trial> {
        let text = |key: &str| block.get(key).and_then(Value::as_str).map(str::to_owned);
        let source = text("source_code").or_else(|| text("prompt_template")).expect("something to run");
        let given = inputs.get("text").and_then(Value::as_str).unwrap_or_default();
        let trial = match source.as_str() {
            "upper" | "Shout {text}" => Trial::Gave(Value::map([("text", Value::from(given.to_uppercase()))])),
            "nothing" => Trial::Gave(value("{}")),
            "number" => Trial::Gave(value(r#"{"text": 1}"#)),
            "refuse" => Trial::Gave(value(r#"{"error": "no"}"#)),
            other => Trial::Failed(StepError::new(Code::BlockFailed, format!("NameError: {other}"))),
        };
        Box::pin(async move {
            if self.has_no_sandbox {
                return Err(StepError::new(Code::NoSandbox, "there is no sandbox"));
            }
            self.trials.lock().expect("lock").push((source, inputs.clone()));
            Ok(trial)
        })
    }

    /// Returns the next scripted report; a pipeline without one has no faults.
    fn rehearse<'a>(&'a self, _pipeline: &'a Value, _blocks: &'a [Value]) -> Reply<'a, Rehearsal> {
        let rehearsal = self.rehearsals.lock().expect("lock").pop_front();
        Box::pin(async move { rehearsal.unwrap_or_else(|| Ok(Rehearsal::default())) })
    }

    fn tell(&self, event: Event) {
        self.events.lock().expect("lock").push(event);
    }
}

pub(crate) const TEXT: &str = r#"{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}"#;

/// A decomposition into one text-to-text block for each id.
pub(crate) fn needs(ids: &[&str]) -> String {
    let block = |id: &&str| {
        format!(
            r#"{{"suggested_id":"{id}","description":"Change a text","input_schema":{TEXT},"output_schema":{TEXT}}}"#
        )
    };
    format!(r#"{{"required_blocks":[{}]}}"#, ids.iter().map(block).collect::<Vec<_>>().join(","))
}

/// A block with a source, as a model writes it.
pub(crate) fn writes(source: &str) -> String {
    format!(r#"{{"source_code":"{source}","examples":[{{"inputs":{{"text":"abc"}},"outputs":{{"text":"ABC"}}}}]}}"#)
}

/// A pipeline of these blocks, each with the text `x` as input.
pub(crate) fn wires(ids: &[&str]) -> String {
    let node =
        |(index, id): (usize, &&str)| format!(r#"{{"id":"n{}","block_id":"{id}","inputs":{{"text":"x"}}}}"#, index + 1);
    let nodes: Vec<_> = ids.iter().enumerate().map(node).collect();
    format!(r#"{{"id":"pipeline_p","nodes":[{}]}}"#, nodes.join(","))
}

/// A block of the registry.
pub(crate) fn kept(id: &str, output: &str, similarity: f32) -> Candidate {
    let block = value(&format!(
        r#"{{"id":"{id}","name":"Kept","description":"Kept","source_code":"upper","input_schema":{TEXT},"output_schema":{output}}}"#
    ));
    Candidate { block, similarity: Some(similarity) }
}

/// An order for the block `shout`.
pub(crate) fn order() -> flowloom_author::create::Order {
    let wanted = Wanted {
        suggested_id: "shout".into(),
        description: "Shout a text".into(),
        category: "process".into(),
        execution_type: "python".into(),
        input_schema: Some(value(TEXT)),
        output_schema: Some(value(TEXT)),
        ..Wanted::default()
    };
    flowloom_author::create::Order { wanted, id: "shout".into(), intent: "shout it".into(), index: 0, total: 1 }
}
