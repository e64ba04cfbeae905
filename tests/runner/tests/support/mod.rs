//! Dry runs in the real sandbox, with scripted models.
#![allow(dead_code)]

use std::path::Path;
use std::sync::{Arc, Mutex};

use flowloom_author::candidates::describe_block;
use flowloom_author::dry_run::DryRunInputs;
use flowloom_author::wire::build_definition;
use flowloom_author::{
    Candidate, DryRun, DryRunner, FoundBlocks, ModelAnswer, ModelQuestion, PlannerEnv, PlannerEvent, PlannerSettings,
    RequiredBlock, TrialOutcome,
};
use flowloom_core::Path as StepPath;
use flowloom_core::chat::{GenerateOptions, Message, Role};
use flowloom_core::effect::{GenerateRequest, Purpose};
use flowloom_core::id::RunId;
use flowloom_core::json::parse_value;
use flowloom_core::limits::Limits;
use flowloom_core::value::Value;
use flowloom_formats::{Sources, pipeline::built_in_blocks};
use flowloom_models::{ModelSettings, Models};
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::{Deltas, EffectContext, EffectFuture};

/// The user of the dry runs.
pub(crate) const TEST_USER: &str = "ada";

pub(crate) fn value_of(text: &str) -> Value {
    parse_value(text).unwrap_or_else(|_| panic!("JSON: {text}"))
}

/// A model that answers from a file; none without a file.
pub(crate) fn scripted_models(script: Option<&Path>) -> Arc<Models> {
    let default = script.map(|script| format!("scripted:{}", script.display()));
    Arc::new(Models::new(ModelSettings { default, ..ModelSettings::default() }, Arc::new(|_: &str| None)))
}

pub(crate) fn new_dry_runner(script: Option<&Path>, functions: &[&str]) -> DryRunner {
    DryRunner {
        model: scripted_models(script),
        named: None,
        code: conformance::shared_sandbox(),
        clock: Arc::new(SystemClock),
        sources: Sources { functions: functions.iter().map(|id| (*id).to_owned()).collect(), ..Sources::default() },
        limits: Limits::default(),
        user: TEST_USER.to_owned(),
    }
}

/// A world for authoring: a scripted model, the blocks of the evaluation, and the sandbox.
pub(crate) struct AuthoringWorld {
    pub(crate) dry_runner: DryRunner,
    /// Inputs of the dry runs of a wiring.
    pub(crate) inputs: DryRunInputs,
    pub(crate) events: Mutex<Vec<PlannerEvent>>,
}

impl AuthoringWorld {
    /// A world in which this conversation takes place.
    pub(crate) fn new(script: &Path, given: DryRunInputs) -> AuthoringWorld {
        AuthoringWorld { dry_runner: new_dry_runner(Some(script), &[]), inputs: given, events: Mutex::default() }
    }

    pub(crate) fn new_settings(&self) -> PlannerSettings {
        PlannerSettings { sources: self.dry_runner.sources.clone(), ..PlannerSettings::default() }
    }

    /// Number of events with this name.
    pub(crate) fn count_events(&self, name: &str) -> usize {
        self.events.lock().expect("lock").iter().filter(|event| event.name() == name).count()
    }
}

impl PlannerEnv for AuthoringWorld {
    fn ask_model<'a>(&'a self, question: &'a ModelQuestion) -> EffectFuture<'a, ModelAnswer> {
        Box::pin(async move {
            let model = &self.dry_runner.model;
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
            let text = model.generate_reply(&request, &test_context()).await?.text.unwrap_or_default();
            Ok(ModelAnswer { text, elapsed: 0.0 })
        })
    }

    fn list_candidate_blocks<'a>(&'a self, _intent: &'a str) -> EffectFuture<'a, Vec<Value>> {
        let blocks = built_in_blocks().iter().map(describe_block).collect();
        Box::pin(async move { Ok(blocks) })
    }

    fn find_blocks<'a>(&'a self, wanted: &'a RequiredBlock) -> EffectFuture<'a, FoundBlocks> {
        let is_called = |block: &&Value| block.get("id").and_then(Value::as_str) == Some(&wanted.suggested_id);
        let found = built_in_blocks()
            .iter()
            .filter(is_called)
            .map(|block| Candidate { block: block.clone(), similarity: Some(1.0) });
        let found = FoundBlocks { candidates: found.collect(), ..FoundBlocks::default() };
        Box::pin(async move { Ok(found) })
    }

    fn try_block<'a>(&'a self, block: &'a Value, inputs: &'a Value) -> EffectFuture<'a, TrialOutcome> {
        Box::pin(async move { Ok(self.dry_runner.try_block(block, inputs).await?.into_trial()) })
    }

    fn keep_block<'a>(&'a self, _block: &'a Value) -> EffectFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn dry_run<'a>(&'a self, pipeline: &'a Value, blocks: &'a [Value]) -> EffectFuture<'a, DryRun> {
        Box::pin(async move { self.dry_runner.dry_run(&build_definition(pipeline, blocks), &self.inputs).await })
    }

    fn emit_event(&self, event: PlannerEvent) {
        self.events.lock().expect("lock").push(event);
    }
}

struct NoDeltas;

impl Deltas for NoDeltas {
    fn push(&self, _path: &StepPath, _attempt: u32, _text: &str) {}
}

fn test_context() -> EffectContext {
    EffectContext {
        run: RunId::new(0, [2; 10]),
        epoch: 1,
        path: StepPath::root(),
        attempt: 1,
        retried_attempt: 0,
        user: TEST_USER.into(),
        agent: None,
        definition: Arc::default(),
        depth: 0,
        trace: None,
        asks_first: false,
        allowance: None,
        deltas: Arc::new(NoDeltas),
    }
}
