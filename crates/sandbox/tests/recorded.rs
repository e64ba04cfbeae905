//! Blocks in a real run: their requests are recorded as child effects, and replay starts no process.

mod support;

use std::sync::Arc;

use flowloom_core::effect::{CallRequest, GenerateRequest, Generated, HttpReply, HttpRequest, ScrapeRequest};
use flowloom_core::error::StepError;
use flowloom_core::event::Event;
use flowloom_core::expr::{Data, Missing, TextRules};
use flowloom_core::hash::Hash;
use flowloom_core::limits::Limits;
use flowloom_core::path::Key;
use flowloom_core::plan::{Block, BlockCode, Composite, EffectClass, Format, Inputs, Kind, Leaf, Plan, Step, Write};
use flowloom_core::render::Style;
use flowloom_core::{Code, Map, Status, Value};
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::{Context, Effects, Functions, Http, Model, NoCode, Price, Reply, Scraper, Substeps};
use flowloom_runtime::memory::MemoryJournal;
use flowloom_runtime::{Engine, Start};
use flowloom_sandbox::Sandbox;
use support::{body, config};

/// Answers with the request itself.
struct Echo;

impl Model for Echo {
    fn resolve(&self, _named: Option<&str>) -> Result<String, StepError> {
        Ok("test:echo".to_owned())
    }

    fn generate<'a>(&'a self, request: &'a GenerateRequest, _context: &'a Context) -> Reply<'a, Generated> {
        let said = request.messages.last().map(|message| message.content.clone());
        Box::pin(async move { Ok(Generated { text: said, ..Generated::default() }) })
    }

    fn window(&self, _model: &str) -> u64 {
        1000
    }

    fn count_tokens(&self, _model: &str, text: &str) -> u64 {
        text.len() as u64
    }

    fn default_max_tokens(&self, _model: &str) -> u64 {
        100
    }

    fn price(&self, _model: &str) -> Option<Price> {
        None
    }
}

impl Http for Echo {
    fn send<'a>(&'a self, request: &'a HttpRequest, _context: &'a Context) -> Reply<'a, HttpReply> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            Ok(HttpReply { status: 200, headers: Vec::new(), body: request.url.names_only() })
        })
    }
}

impl Scraper for Echo {
    fn fetch<'a>(&'a self, _request: &'a ScrapeRequest, _context: &'a Context) -> Reply<'a, String> {
        Box::pin(async { Ok("page".to_owned()) })
    }

    fn select(&self, _html: &str, _selector: &str) -> Result<Vec<String>, StepError> {
        Ok(Vec::new())
    }
}

impl Functions for Echo {
    fn class(&self, _request: &CallRequest) -> EffectClass {
        EffectClass::AtLeastOnce
    }

    fn permit(&self, _agent: &str, _function: &str) -> Result<(), StepError> {
        Ok(())
    }

    fn call<'a>(
        &'a self,
        _request: &'a CallRequest,
        _context: &'a Context,
        _below: &'a dyn Substeps,
    ) -> Reply<'a, Value> {
        Box::pin(async { Ok(Value::Null) })
    }
}

/// A plan that consists of one block in a sequence.
fn plan(source: &str) -> Arc<Plan> {
    plan_of(Step::new(Key::named("all").expect("clean"), Composite::Sequence(vec![block_step(source)])))
}

fn block_step(source: &str) -> Step {
    let inputs = Data::Constant(Map::new().into());
    let code = BlockCode::Python { source: source.into(), effect: EffectClass::AtLeastOnce };
    let kind = Kind::Leaf(Leaf::Block(Block {
        id: "block".into(),
        code,
        inputs,
        input_schema: None,
        output_schema: None,
        failure: None,
    }));
    let mut step = Step::new(Key::named("block").expect("clean"), kind);
    step.writes = vec![Write::to("block")];
    step
}

fn plan_of(root: Step) -> Arc<Plan> {
    Arc::new(Plan {
        format: Format::new("steps"),
        id: None,
        name: "test".into(),
        description: String::new(),
        inputs: Inputs::Named { declared: Vec::new(), defaults: Map::new() },
        text: TextRules { missing: Missing::Keep, null_is_missing: false, style: Style::Json, keeps_type: false },
        limits: Limits::default(),
        functions: Vec::new(),
        thread: None,
        root,
    })
}

fn engine(code: Arc<dyn flowloom_runtime::effects::Code>) -> Engine {
    let echo = Arc::new(Echo);
    let (model, http, scraper, functions) = (echo.clone(), echo.clone(), echo.clone(), echo);
    let effects = Effects { model, http, scraper, functions, code, clock: Arc::new(SystemClock) };
    Engine::new(effects, Arc::new(MemoryJournal::new()))
}

fn start(plan: &Arc<Plan>) -> Start {
    Start {
        plan: plan.clone(),
        bundle: Hash::of(b"bundle"),
        inputs: Map::new().into(),
        owner: "local".to_owned(),
        agent: None,
        limits: Limits::default(),
        depth: 0,
        workflow: None,
        keep: None,
        id: None,
    }
}

#[tokio::test]
async fn what_a_block_asks_is_recorded_and_replayed() {
    let plan = plan(&body(
        "import asyncio\n\
         async def one(i):\n\
         \x20   async with httpx.AsyncClient() as client:\n\
         \x20       return (await client.get(f'http://a.test/{i}')).text\n\
         pages = await asyncio.gather(*[one(i) for i in range(10)])\n\
         said = await call_llm(system='s', user='hello')\n\
         context['memory']['seen'] = len(pages)\n\
         return {'last': pages[-1], 'said': said}",
    ));
    let engine = engine(Arc::new(Sandbox::new(config())));
    let outcome = engine.start(start(&plan)).expect("it starts").drive().await;
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
    let replayed = self::engine(Arc::new(NoCode)).replay(outcome.records.clone(), plan).await.expect("it follows");
    assert_eq!((replayed.state.status, replayed.broken), (Status::Succeeded, None));
    assert_eq!(replayed.records.len(), outcome.records.len());
}

#[tokio::test]
async fn a_block_can_be_the_whole_plan() {
    let plan = plan_of(block_step(&body("return {'said': await call_llm(system='s', user='hello')}")));
    let engine = engine(Arc::new(Sandbox::new(config())));
    let outcome = engine.start(start(&plan)).expect("it starts").drive().await;
    assert_eq!(outcome.state.status, Status::Succeeded, "{:?}", outcome.state.error);
    let replayed = self::engine(Arc::new(NoCode)).replay(outcome.records.clone(), plan).await.expect("it follows");
    assert_eq!((replayed.state.status, replayed.broken), (Status::Succeeded, None));
    assert_eq!(replayed.records.len(), outcome.records.len());
}

#[tokio::test]
async fn a_failed_block_fails_its_step() {
    let plan = plan(&body("raise ValueError('no')"));
    let engine = engine(Arc::new(Sandbox::new(config())));
    let outcome = engine.start(start(&plan)).expect("it starts").drive().await;
    let error = outcome.state.error.expect("an error");
    assert_eq!((error.code, error.message.as_str()), (Code::BlockFailed, "ValueError: no (line 2 of the block)"));
}
