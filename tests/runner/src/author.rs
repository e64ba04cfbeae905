//! Cases of authoring: clarification conversations, and the stages from a goal to a pipeline. Blocks and pipelines are
//! executed in the real sandbox.
//!
//! Intentional differences from the original system are stated in the cases under `ours`: an unusable list of blocks is
//! an error; the wiring is validated and corrected until it passes; a block is run again after each fix and its outputs
//! are checked; and a block that could not be created ends the authoring instead of leaving a gap in the pipeline.

use std::sync::Arc;

use flowloom_author::candidates::describe_block;
use flowloom_author::clarify::{Clarification, Conversation, ConversationMessage, ConversationRole, clarify_goal};
use flowloom_author::dry_run::{DryRunInputs, Prompts};
use flowloom_author::wire::build_definition;
use flowloom_author::{
    Candidate, Draft, DryRun, DryRunner, FoundBlocks, ModelAnswer, ModelQuestion, PlannerEnv, PlannerEvent,
    PlannerSettings, RequiredBlock, TrialOutcome, run_planner,
};
use flowloom_core::chat::Role;
use flowloom_core::limits::Limits;
use flowloom_core::render;
use flowloom_core::value::{Map, Value};
use flowloom_formats::Sources;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::EffectFuture;
use parking_lot::Mutex;

use crate::expectation::CaseJudge;
use crate::pipeline::ScriptedAnswers;

/// Similarity of a case's search results, which have no degrees.
const FOUND_SIMILARITY: f32 = 1.0;
/// Maximum number of search results.
const MAX_FOUND: usize = 5;

/// The fields of each event that a case compares. Prompts, raw texts, definitions, times and texts for people are left
/// out, and so are fields that the original system does not have.
const COMPARED_FIELDS: [(&str, &[&str]); 16] = [
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
pub(crate) fn judge_clarify(case: &Value, expectation: &Map, judge: &mut CaseJudge) {
    let cases = case.get("definition").and_then(|definition| definition.get("cases"));
    for (name, expected) in expectation {
        let (Some(case), Some(expected)) = (cases.and_then(|cases| cases.get(name)), expected.as_map()) else {
            judge.add_failure(format!("the key {name:?} is not known"));
            continue;
        };
        let world = ScriptedWorld::new(case.get("llm"), None);
        let clarified = match crate::block_on(clarify_goal(&world, &parse_conversation(case))) {
            Ok(clarified) => clarified,
            Err(error) => return judge.add_failure(format!("{name}: {error}")),
        };
        let asked = world.recorded_questions();
        for (key, expected) in expected {
            let actual = match &**key {
                "result" => clarification_value(&clarified, expected),
                "llm_calls" => (asked.len() as i64).into(),
                "last_call_roles" => asked.last().map(message_roles).unwrap_or_default(),
                other => return judge.add_failure(format!("the key {other:?} is not known")),
            };
            judge.compare_key(&format!("{name}.{key}"), expected, Some(&actual));
        }
    }
}

/// The original system mostly omits fields without a value.
fn clarification_value(clarified: &Clarification, expected: &Value) -> Value {
    let text = |text: &Option<String>| text.as_deref().map_or(Value::Null, Value::from);
    let fields = [("refined_intent", text(&clarified.refined_intent)), ("question", text(&clarified.question))];
    let shown_fields = fields.into_iter().filter(|(key, value)| *value != Value::Null || expected.get(key).is_some());
    Value::map(std::iter::once(("ready", clarified.ready.into())).chain(shown_fields))
}

fn parse_conversation(case: &Value) -> Conversation {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let message = |message: &Value| {
        let role =
            if text(message, "role") == "assistant" { ConversationRole::Assistant } else { ConversationRole::User };
        ConversationMessage { role, content: text(message, "content") }
    };
    let history = case.get("history").and_then(Value::as_list).unwrap_or_default().iter().map(message).collect();
    Conversation { message: text(case, "message"), history }
}

fn message_roles(question: &ModelQuestion) -> Value {
    let name = |role| if role == Role::Assistant { "assistant" } else { "user" };
    let roles = question.messages.iter().map(|message| name(message.role));
    Value::list(std::iter::once("system").chain(roles).map(Value::from).collect())
}

/// Judges the authoring of a pipeline.
pub(crate) fn judge_authoring(case: &Value, expectation: &Map, judge: &mut CaseJudge) {
    let text = |key: &str| case.get("input").and_then(|input| input.get(key)).and_then(Value::as_str);
    let mut draft = Draft::new(text("intent").unwrap_or_default(), text("user_id").unwrap_or("u1"));
    let world = ScriptedWorld::new(case.get("script"), case.get("definition").and_then(|given| given.get("registry")));
    let settings = PlannerSettings::default();
    // Only the events are compared: a client of the original event stream sees nothing else either.
    let _ = crate::block_on(run_planner(&world, &settings, &mut draft));
    let events = world.events.lock();
    let names: Vec<&str> = events.iter().map(PlannerEvent::name).collect();
    check_event_names(expectation, judge);
    judge.compare_events(expectation, &names);
    let asked = world.recorded_questions();
    for (key, expected) in expectation {
        let actual = match &**key {
            "includes" | "excludes" => continue,
            "event_types" => Value::list(names.iter().copied().map(Value::from).collect()),
            "events_slim" => Value::list(events.iter().map(compared_fields).collect()),
            // A failure is an event of the stream; the stream never ends without one.
            "raises" => Value::Null,
            "saved_blocks" => {
                let saved = draft.made.iter().filter_map(|made| made.block()?.get("id").cloned());
                Value::list(saved.collect())
            }
            "llm_calls" => (asked.len() as i64).into(),
            "create_user_prompts_mention_error" => Value::list(asked.iter().map(mentions_error).collect()),
            other => return judge.add_failure(format!("the key {other:?} is not known")),
        };
        judge.compare_key(key, expected, Some(&actual));
    }
}

/// Fails for an unknown event name, which `excludes` would never find.
fn check_event_names(expectation: &Map, judge: &mut CaseJudge) {
    for key in ["includes", "excludes"] {
        for name in expectation.get(key).and_then(Value::as_list).into_iter().flatten() {
            if !COMPARED_FIELDS.iter().any(|(known, _)| Some(*known) == name.as_str()) {
                judge.add_failure(format!("there is no event {}", render::to_json(name)));
            }
        }
    }
}

fn compared_fields(event: &PlannerEvent) -> Value {
    let payload = event.to_payload();
    let keys = COMPARED_FIELDS.iter().find(|(name, _)| *name == event.name()).map_or(&[][..], |(_, keys)| keys);
    let shown_fields = keys.iter().filter_map(|key| Some((*key, payload.get(key)?.clone())));
    Value::map(std::iter::once(("type", Value::from(event.name()))).chain(shown_fields))
}

fn mentions_error(question: &ModelQuestion) -> Value {
    let last = question.messages.last().map(|message| message.content.to_lowercase()).unwrap_or_default();
    last.contains("error").into()
}

/// Answers in the order of calls, a registry, and the sandbox.
struct ScriptedWorld {
    answers: Arc<ScriptedAnswers>,
    registry: Vec<Value>,
    asked: Mutex<Vec<ModelQuestion>>,
    events: Mutex<Vec<PlannerEvent>>,
}

impl ScriptedWorld {
    fn new(script: Option<&Value>, registry: Option<&Value>) -> ScriptedWorld {
        ScriptedWorld {
            answers: Arc::new(ScriptedAnswers::new(script)),
            registry: registry.and_then(Value::as_list).unwrap_or_default().to_vec(),
            asked: Mutex::default(),
            events: Mutex::default(),
        }
    }

    fn recorded_questions(&self) -> Vec<ModelQuestion> {
        self.asked.lock().clone()
    }

    /// Whether the query occurs in a block's id, name, description or tags.
    fn is_found(block: &Value, query: &str) -> bool {
        let texts = ["id", "name", "description"].into_iter().filter_map(|key| block.get(key));
        let tags = block.get("tags").and_then(Value::as_list).unwrap_or_default();
        let mut words = texts.chain(tags).filter_map(Value::as_str);
        words.any(|text| text.to_lowercase().contains(&query.to_lowercase()))
    }

    fn new_dry_runner(&self) -> DryRunner {
        DryRunner {
            model: self.answers.clone(),
            named: None,
            code: crate::shared_sandbox(),
            clock: Arc::new(SystemClock),
            sources: Sources::default(),
            limits: Limits::default(),
            user: "u1".to_owned(),
        }
    }
}

impl PlannerEnv for ScriptedWorld {
    fn ask_model<'a>(&'a self, question: &'a ModelQuestion) -> EffectFuture<'a, ModelAnswer> {
        Box::pin(async move {
            self.asked.lock().push(question.clone());
            Ok(ModelAnswer { text: self.answers.next_answer()?, elapsed: 0.0 })
        })
    }

    fn list_candidate_blocks<'a>(&'a self, _intent: &'a str) -> EffectFuture<'a, Vec<Value>> {
        let blocks = self.registry.iter().map(describe_block).collect();
        Box::pin(async move { Ok(blocks) })
    }

    fn find_blocks<'a>(&'a self, wanted: &'a RequiredBlock) -> EffectFuture<'a, FoundBlocks> {
        let found = self.registry.iter().filter(|block| ScriptedWorld::is_found(block, &wanted.description));
        let candidates = found
            .take(MAX_FOUND)
            .map(|block| Candidate { block: block.clone(), similarity: Some(FOUND_SIMILARITY) })
            .collect();
        Box::pin(async move { Ok(FoundBlocks { candidates, ..FoundBlocks::default() }) })
    }

    fn try_block<'a>(&'a self, block: &'a Value, inputs: &'a Value) -> EffectFuture<'a, TrialOutcome> {
        Box::pin(async move { Ok(self.new_dry_runner().try_block(block, inputs).await?.into_trial()) })
    }

    fn keep_block<'a>(&'a self, _block: &'a Value) -> EffectFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn dry_run<'a>(&'a self, pipeline: &'a Value, blocks: &'a [Value]) -> EffectFuture<'a, DryRun> {
        let given = DryRunInputs { prompts: Prompts::Mocked, ..DryRunInputs::default() };
        Box::pin(async move { self.new_dry_runner().dry_run(&build_definition(pipeline, blocks), &given).await })
    }

    fn emit_event(&self, event: PlannerEvent) {
        self.events.lock().push(event);
    }
}
