//! A scripted environment: answers in order, a registry, and the outputs of sources.
#![allow(dead_code)]

use std::collections::VecDeque;
use std::sync::Mutex;

use flowloom_author::candidates::describe_block;
use flowloom_author::{
    Candidate, DryRun, FoundBlocks, ModelAnswer, ModelQuestion, PlannerEnv, PlannerEvent, RequiredBlock, TrialOutcome,
};
use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::json::parse_value;
use flowloom_core::render;
use flowloom_core::value::Value;
use flowloom_runtime::effects::EffectFuture;

/// The environment, and a record of what happened in it.
#[derive(Default)]
pub(crate) struct Scripted {
    pub(crate) answers: Mutex<VecDeque<Result<String, StepFailure>>>,
    pub(crate) registry: Vec<Candidate>,
    /// Whether the sandbox is missing.
    pub(crate) has_no_sandbox: bool,
    /// The reports of dry runs, in order.
    pub(crate) dry_runs: Mutex<VecDeque<Result<DryRun, StepFailure>>>,
    pub(crate) questions: Mutex<Vec<ModelQuestion>>,
    pub(crate) events: Mutex<Vec<PlannerEvent>>,
    /// The source or prompt of each trial, and its inputs.
    pub(crate) trials: Mutex<Vec<(String, Value)>>,
}

pub(crate) fn parse_json(text: &str) -> Value {
    parse_value(text).expect("JSON")
}

impl Scripted {
    /// An environment whose model returns these answers; `!FL1010` fails with that code.
    pub(crate) fn with_answers<T: Into<String>>(answers: impl IntoIterator<Item = T>) -> Scripted {
        let answer = |reply: String| match reply.strip_prefix('!') {
            Some(code) => Err(StepFailure::new(Code::parse(code).expect("a code"), "the model is gone")),
            None => Ok(reply),
        };
        let answers = answers.into_iter().map(|reply| answer(reply.into())).collect();
        Scripted { answers: Mutex::new(answers), ..Scripted::default() }
    }

    pub(crate) fn event_names(&self) -> Vec<&'static str> {
        self.events.lock().expect("lock").iter().map(PlannerEvent::name).collect()
    }

    /// The payloads of all events with a name.
    pub(crate) fn event_payloads(&self, name: &str) -> Vec<Value> {
        let events = self.events.lock().expect("lock");
        events.iter().filter(|event| event.name() == name).map(PlannerEvent::to_payload).collect()
    }

    pub(crate) fn asked_questions(&self) -> Vec<ModelQuestion> {
        self.questions.lock().expect("lock").clone()
    }

    /// The last message of each question.
    pub(crate) fn last_messages(&self) -> Vec<String> {
        self.asked_questions().iter().map(|asked| asked.messages.last().expect("a message").content.clone()).collect()
    }

    pub(crate) fn tried_sources(&self) -> Vec<String> {
        let trials = self.trials.lock().expect("lock");
        trials.iter().map(|(source, inputs)| format!("{source} {}", render::to_json(inputs))).collect()
    }
}

impl PlannerEnv for Scripted {
    fn ask_model<'a>(&'a self, question: &'a ModelQuestion) -> EffectFuture<'a, ModelAnswer> {
        Box::pin(async move {
            self.questions.lock().expect("lock").push(question.clone());
            let answer = self.answers.lock().expect("lock").pop_front();
            let text = answer.unwrap_or_else(|| Err(StepFailure::new(Code::ScriptExhausted, "no further answer")))?;
            Ok(ModelAnswer { text, elapsed: 0.5 })
        })
    }

    fn list_candidate_blocks<'a>(&'a self, _intent: &'a str) -> EffectFuture<'a, Vec<Value>> {
        let blocks = self.registry.iter().map(|candidate| describe_block(&candidate.block)).collect();
        Box::pin(async move { Ok(blocks) })
    }

    fn find_blocks<'a>(&'a self, _wanted: &'a RequiredBlock) -> EffectFuture<'a, FoundBlocks> {
        Box::pin(async move { Ok(FoundBlocks { candidates: self.registry.clone(), ..FoundBlocks::default() }) })
    }

    /// A source is the name of its behaviour.
    fn try_block<'a>(&'a self, block: &'a Value, inputs: &'a Value) -> EffectFuture<'a, TrialOutcome> {
        let text = |key: &str| block.get(key).and_then(Value::as_str).map(str::to_owned);
        let source = text("source_code").or_else(|| text("prompt_template")).expect("something to run");
        let given = inputs.get("text").and_then(Value::as_str).unwrap_or_default();
        let trial = match source.as_str() {
            "upper" | "Shout {text}" => {
                TrialOutcome::Returned(Value::map([("text", Value::from(given.to_uppercase()))]))
            }
            "deliver" | "deliver {text}" => TrialOutcome::Returned(parse_json(r#"{"delivered": true}"#)),
            "nothing" => TrialOutcome::Returned(parse_json("{}")),
            "number" => TrialOutcome::Returned(parse_json(r#"{"text": 1}"#)),
            "refuse" => TrialOutcome::Returned(parse_json(r#"{"error": "no"}"#)),
            "loop" => TrialOutcome::Failed(StepFailure::new(
                Code::BlockLimit,
                "the block was stopped: it ran longer than 5000 ms",
            )),
            other => TrialOutcome::Failed(StepFailure::new(Code::BlockFailed, format!("NameError: {other}"))),
        };
        Box::pin(async move {
            if self.has_no_sandbox {
                return Err(StepFailure::new(Code::NoSandbox, "there is no sandbox"));
            }
            self.trials.lock().expect("lock").push((source, inputs.clone()));
            Ok(trial)
        })
    }

    fn keep_block<'a>(&'a self, _block: &'a Value) -> EffectFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Returns the next scripted report; a pipeline without one has no faults.
    fn dry_run<'a>(&'a self, _pipeline: &'a Value, _blocks: &'a [Value]) -> EffectFuture<'a, DryRun> {
        let dry_run = self.dry_runs.lock().expect("lock").pop_front();
        Box::pin(async move { dry_run.unwrap_or_else(|| Ok(DryRun::default())) })
    }

    fn emit_event(&self, event: PlannerEvent) {
        self.events.lock().expect("lock").push(event);
    }
}

pub(crate) const TEXT_SCHEMA: &str = r#"{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}"#;

/// A decomposition into one text-to-text block for each id.
pub(crate) fn decomposition_answer(ids: &[&str]) -> String {
    let block = |id: &&str| {
        format!(
            r#"{{"suggested_id":"{id}","description":"Change a text","input_schema":{TEXT_SCHEMA},"output_schema":{TEXT_SCHEMA}}}"#
        )
    };
    format!(r#"{{"required_blocks":[{}]}}"#, ids.iter().map(block).collect::<Vec<_>>().join(","))
}

/// A block with a source, as a model writes it.
pub(crate) fn block_answer(source: &str) -> String {
    format!(r#"{{"source_code":"{source}","examples":[{{"inputs":{{"text":"abc"}},"outputs":{{"text":"ABC"}}}}]}}"#)
}

/// A pipeline of these blocks, each with the text `x` as input.
pub(crate) fn pipeline_answer(ids: &[&str]) -> String {
    let node =
        |(index, id): (usize, &&str)| format!(r#"{{"id":"n{}","block_id":"{id}","inputs":{{"text":"x"}}}}"#, index + 1);
    let nodes: Vec<_> = ids.iter().enumerate().map(node).collect();
    format!(r#"{{"id":"pipeline_p","nodes":[{}]}}"#, nodes.join(","))
}

/// A block of the registry.
pub(crate) fn registry_block(id: &str, output: &str, similarity: f32) -> Candidate {
    let block = parse_json(&format!(
        r#"{{"id":"{id}","name":"Kept","description":"Kept","source_code":"upper","input_schema":{TEXT_SCHEMA},"output_schema":{output}}}"#
    ));
    Candidate { block, similarity: Some(similarity) }
}

/// An order for the block `shout`.
pub(crate) fn shout_order() -> flowloom_author::create::BlockOrder {
    let wanted = RequiredBlock {
        suggested_id: "shout".into(),
        description: "Shout a text".into(),
        category: "process".into(),
        execution_type: "python".into(),
        input_schema: Some(parse_json(TEXT_SCHEMA)),
        output_schema: Some(parse_json(TEXT_SCHEMA)),
        ..RequiredBlock::default()
    };
    flowloom_author::create::BlockOrder { wanted, id: "shout".into(), intent: "shout it".into(), index: 0, total: 1 }
}
