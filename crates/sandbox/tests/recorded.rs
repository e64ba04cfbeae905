//! Blocks in a real run: their requests are recorded as child effects, and replay starts no process.

mod support;

use std::sync::Arc;

use flowloom_core::effect::{CallRequest, GenerateReply, GenerateRequest, HttpReply, HttpRequest, ScrapeRequest};
use flowloom_core::error::StepFailure;
use flowloom_core::event::Event;
use flowloom_core::expr::{Data, Missing, TextRules, Wording};
use flowloom_core::hash::Hash;
use flowloom_core::limits::Limits;
use flowloom_core::path::Key;
use flowloom_core::plan::{
    Block, BlockCode, Composite, EffectClass, Format, Inputs, Leaf, Plan, Step, StepKind, Write,
};
use flowloom_core::render::TextStyle;
use flowloom_core::{Code, Map, Status, Value};
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::{
    ChildEffects, EffectContext, EffectFuture, Effects, Functions, HttpSender, Model, NoCodeRunner, Price, Scraper,
};
use flowloom_runtime::memory::MemoryJournal;
use flowloom_runtime::{Engine, StartOptions};
use flowloom_sandbox::Sandbox;
use support::{execute_body, test_config};

/// Answers with the request itself.
struct EchoEffects;

impl Model for EchoEffects {
    fn resolve(&self, _named: Option<&str>) -> Result<String, StepFailure> {
        Ok("test:echo".to_owned())
    }

    fn generate_reply<'a>(
        &'a self,
        request: &'a GenerateRequest,
        _context: &'a EffectContext,
    ) -> EffectFuture<'a, GenerateReply> {
        let printed = request.messages.last().map(|message| message.content.clone());
        Box::pin(async move { Ok(GenerateReply { text: printed, ..GenerateReply::default() }) })
    }

    fn context_window(&self, _model: &str) -> u64 {
        1000
    }

    fn count_tokens(&self, _model: &str, text: &str) -> u64 {
        text.len() as u64
    }

    fn default_max_tokens(&self, _model: &str) -> u64 {
        100
    }

    fn find_price(&self, _model: &str) -> Option<Price> {
        None
    }
}

impl HttpSender for EchoEffects {
    fn send_request<'a>(
        &'a self,
        request: &'a HttpRequest,
        _context: &'a EffectContext,
    ) -> EffectFuture<'a, HttpReply> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            Ok(HttpReply { status: 200, headers: Vec::new(), body: request.url.to_redacted_text() })
        })
    }
}

impl Scraper for EchoEffects {
    fn fetch_page<'a>(&'a self, _request: &'a ScrapeRequest, _context: &'a EffectContext) -> EffectFuture<'a, String> {
        Box::pin(async { Ok("page".to_owned()) })
    }

    fn select_html(&self, _html: &str, _selector: &str) -> Result<Vec<String>, StepFailure> {
        Ok(Vec::new())
    }
}

impl Functions for EchoEffects {
    fn effect_class(&self, _request: &CallRequest) -> EffectClass {
        EffectClass::AtLeastOnce
    }

    fn check_agent(&self, _agent: &str) -> Result<(), StepFailure> {
        Ok(())
    }

    fn check_permission(&self, _agent: &str, _function: &str) -> Result<(), StepFailure> {
        Ok(())
    }

    fn call_function<'a>(
        &'a self,
        _request: &'a CallRequest,
        _context: &'a EffectContext,
        _below: &'a dyn ChildEffects,
    ) -> EffectFuture<'a, Value> {
        Box::pin(async { Ok(Value::Null) })
    }
}

/// A plan that consists of one block in a sequence.
fn sequence_plan(source: &str) -> Arc<Plan> {
    plan_with_root(Step::new(Key::from_name("all").expect("clean"), Composite::Sequence(vec![block_step(source)])))
}

fn block_step(source: &str) -> Step {
    let inputs = Data::Constant(Map::new().into());
    let code = BlockCode::Python { source: source.into(), effect: EffectClass::AtLeastOnce };
    let kind = StepKind::Leaf(Leaf::Block(Block {
        id: "block".into(),
        code,
        inputs,
        input_schema: None,
        output_schema: None,
        failure: None,
    }));
    let mut step = Step::new(Key::from_name("block").expect("clean"), kind);
    step.writes = vec![Write::to_variable("block")];
    step
}

fn plan_with_root(root: Step) -> Arc<Plan> {
    Arc::new(Plan {
        format: Format::new("steps"),
        id: None,
        name: "test".into(),
        description: String::new(),
        inputs: Inputs::Named { declared: Vec::new(), defaults: Map::new(), accepts_others: true },
        text: TextRules {
            missing: Missing::Keep,
            null_is_missing: false,
            style: TextStyle::Json,
            keeps_type: false,
            wording: Wording::PLAIN,
        },
        limits: Limits::default(),
        functions: Vec::new(),
        thread: None,
        root,
    })
}

fn new_engine(code: Arc<dyn flowloom_runtime::effects::CodeRunner>) -> Engine {
    let echo = Arc::new(EchoEffects);
    let (model, http, scraper, functions) = (echo.clone(), echo.clone(), echo.clone(), echo);
    let effects = Effects { model, http, scraper, functions, code, clock: Arc::new(SystemClock) };
    Engine::new(effects, Arc::new(MemoryJournal::new()))
}

fn start_settings(plan: &Arc<Plan>) -> StartOptions {
    StartOptions {
        limits: Limits::default(),
        ..StartOptions::new(plan.clone(), Hash::of_bytes(b"bundle"), Map::new().into(), "local")
    }
}

#[tokio::test]
async fn what_a_block_asks_is_recorded_and_replayed() {
    let plan = sequence_plan(&execute_body(
        "import asyncio\n\
         async def one(i):\n\
         \x20   async with httpx.AsyncClient() as client:\n\
         \x20       return (await client.get(f'http://a.test/{i}')).text\n\
         pages = await asyncio.gather(*[one(i) for i in range(10)])\n\
         said = await call_llm(system='s', user='hello')\n\
         context['memory']['seen'] = len(pages)\n\
         return {'last': pages[-1], 'said': said}",
    ));
    let engine = new_engine(Arc::new(Sandbox::new(test_config())));
    let outcome = engine.start_run(start_settings(&plan)).expect("it starts").drive_to_end().await;
    assert_eq!(outcome.state.status, Status::Succeeded, "{:?}", outcome.state.error);
    let started = |path: &str| {
        outcome
            .records
            .iter()
            .any(|record| matches!(record.event, Event::StepStarted { .. }) && record.path.as_str() == path)
    };
    for path in ["/block", "/block/http~1", "/block/http~10", "/block/generate~11"] {
        let paths: Vec<_> = outcome.records.iter().map(|record| record.path.to_string()).collect();
        assert!(started(path), "{path}: {paths:?}");
    }
    // A replay uses the recorded results; nothing runs code.
    let replayed =
        new_engine(Arc::new(NoCodeRunner)).replay_run(outcome.records.clone(), plan).await.expect("it follows");
    assert_eq!((replayed.state.status, replayed.broken), (Status::Succeeded, None));
    assert_eq!(replayed.records.len(), outcome.records.len());
}

#[tokio::test]
async fn a_block_can_be_the_whole_plan() {
    let plan = plan_with_root(block_step(&execute_body("return {'said': await call_llm(system='s', user='hello')}")));
    let engine = new_engine(Arc::new(Sandbox::new(test_config())));
    let outcome = engine.start_run(start_settings(&plan)).expect("it starts").drive_to_end().await;
    assert_eq!(outcome.state.status, Status::Succeeded, "{:?}", outcome.state.error);
    let replayed =
        new_engine(Arc::new(NoCodeRunner)).replay_run(outcome.records.clone(), plan).await.expect("it follows");
    assert_eq!((replayed.state.status, replayed.broken), (Status::Succeeded, None));
    assert_eq!(replayed.records.len(), outcome.records.len());
}

#[tokio::test]
async fn a_failed_block_fails_its_step() {
    let plan = sequence_plan(&execute_body("raise ValueError('no')"));
    let engine = new_engine(Arc::new(Sandbox::new(test_config())));
    let outcome = engine.start_run(start_settings(&plan)).expect("it starts").drive_to_end().await;
    let error = outcome.state.error.expect("an error");
    assert_eq!((error.code, error.message.as_str()), (Code::BlockFailed, "ValueError: no (line 2 of the block)"));
}
