//! Cases of the `pipeline` format. Blocks run in the real sandbox, so these cases use a real clock.

use std::sync::Arc;

use flowloom_core::chat::Usage;
use flowloom_core::code::Code;
use flowloom_core::effect::{GenerateReply, GenerateRequest, HttpReply, HttpRequest};
use flowloom_core::error::StepFailure;
use flowloom_core::event::{Event, MemoryWrite, Record, RunCreated};
use flowloom_core::expr::Data;
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::plan::Plan;
use flowloom_core::render;
use flowloom_core::value::{Map, Value};
use flowloom_formats::{Compiled, Sources, compile, pipeline, render_result};
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::{EffectContext, EffectFuture, Effects, HttpSender, Model, Price};
use flowloom_runtime::journal::{AppendResult, Batch, Journal as _};
use flowloom_runtime::memory::MemoryJournal;
use flowloom_runtime::{Engine, RunOutcome, StartOptions};
use parking_lot::Mutex;

use crate::bound_check::check_bound;
use crate::engines::connect_engine;
use crate::expectation::CaseJudge;
use crate::world::CaseWorld;

/// Judges a run of a pipeline.
pub(crate) fn judge_pipeline(case: &Value, expectation: &Map, judge: &mut CaseJudge) {
    let definition = case.get("definition").cloned().unwrap_or_default();
    let compiled = compile_pipeline(&definition, definition.get("pipeline"));
    judge_scenario(case, expectation, compiled, judge);
}

/// Judges several pipelines over the same blocks, each with its own expectation.
pub(crate) fn judge_multi(case: &Value, expectation: &Map, judge: &mut CaseJudge) {
    let definition = case.get("definition").cloned().unwrap_or_default();
    for (name, expected) in expectation {
        let pipeline = definition.get("pipelines").and_then(|all| all.get(name));
        match (pipeline, expected.as_map()) {
            (Some(pipeline), Some(expected)) => {
                judge_scenario(case, expected, compile_pipeline(&definition, Some(pipeline)), judge);
            }
            _ => judge.add_failure(format!("the key {name:?} is not known")),
        }
    }
}

/// Judges references resolved against a given state.
pub(crate) fn judge_resolver(case: &Value, expectation: &Map, judge: &mut CaseJudge) {
    let state = case.get("definition").and_then(|definition| definition.get("state")).cloned().unwrap_or_default();
    let mut scope = state.get("results").and_then(Value::as_map).cloned().unwrap_or_default();
    for name in ["memory", "user"] {
        scope.insert(name.into(), state.get(name).cloned().unwrap_or_default());
    }
    let inputs = case.get("input").and_then(|input| input.get("inputs")).cloned().unwrap_or_default();
    let resolved = Data::from_value(&inputs, &pipeline::template::parse).resolve(&scope, pipeline::TEXT_RULES);
    for (key, expected) in expectation {
        match (&**key, &resolved) {
            ("resolved", Ok(resolved)) => judge.compare_key(key, expected, Some(resolved)),
            ("resolved", Err(error)) => judge.add_failure(error.to_string()),
            (other, _) => judge.add_failure(format!("the key {other:?} is not known")),
        }
    }
}

/// Judges each source as the only block of a pipeline.
pub(crate) fn judge_sources(case: &Value, expectation: &Map, judge: &mut CaseJudge) {
    let sources = case.get("definition").and_then(|definition| definition.get("sources")).cloned().unwrap_or_default();
    for (key, expected) in expectation {
        let (true, Some(expected)) = (&**key == "per_source_result_of_n1", expected.as_map()) else {
            judge.add_failure(format!("the key {key:?} is not known"));
            continue;
        };
        for (name, expected) in expected {
            if *expected == Value::Null {
                continue;
            }
            let source = sources.get(name).cloned().unwrap_or_default();
            match run_only_block(case, name, source) {
                Ok(result) => compare_source(judge, name, expected, &result),
                Err(why) => judge.add_failure(format!("{name}: {why}")),
            }
        }
    }
}

/// Compares the result of a source; an error is also compared by its start and end.
fn compare_source(judge: &mut CaseJudge, name: &str, expected: &Value, result: &Value) {
    let error = result.get("error").and_then(Value::as_str).unwrap_or_default();
    let parts = [("error_starts", true), ("error_ends", false)];
    for (key, at_start) in parts {
        if let Some(text) = expected.get(key).and_then(Value::as_str) {
            let holds = if at_start { error.starts_with(text) } else { error.ends_with(text) };
            judge.compare_key(&format!("{name}.{key}"), &true.into(), Some(&holds.into()));
        }
    }
    if expected.get("error_starts").is_none() {
        judge.compare_key(name, expected, Some(result));
    }
}

fn run_only_block(case: &Value, name: &str, source: Value) -> Result<Value, String> {
    let id = format!("b_{name}");
    let block =
        Value::map([("id", Value::from(id.as_str())), ("execution_type", "python".into()), ("source_code", source)]);
    let node = Value::map([("id", Value::from("n1")), ("block_id", id.into()), ("inputs", Map::new().into())]);
    let pipeline = Value::map([("id", Value::from("p")), ("nodes", Value::list(vec![node]))]);
    let definition = Value::map([("blocks", Value::list(vec![block]))]);
    let compiled = compile_pipeline(&definition, Some(&pipeline));
    let plan = compiled.plan.ok_or_else(|| "it is refused".to_owned())?;
    let ran = run_plan(case, Arc::new(plan))?;
    let result = render_result(&ran.plan, &ran.outcome.state, &ran.outcome.env).result;
    Ok(result.get("results").and_then(|results| results.get("n1")).cloned().unwrap_or_default())
}

fn compile_pipeline(definition: &Value, pipeline: Option<&Value>) -> Compiled {
    let blocks = definition.get("blocks").cloned().unwrap_or_default();
    let file = Value::map([("pipeline", pipeline.cloned().unwrap_or_default()), ("blocks", blocks)]);
    let files = [("pipeline.json".to_owned(), render::to_json(&file).into_bytes())].into();
    let sources = Sources { files, source_bytes: 1 << 20, ..Sources::default() };
    compile("pipeline.json", &sources, Some(pipeline::FORMAT))
}

struct PipelineRun {
    plan: Arc<Plan>,
    outcome: RunOutcome,
    memory: Value,
    calls: usize,
}

fn judge_scenario(case: &Value, expectation: &Map, compiled: Compiled, judge: &mut CaseJudge) {
    if judge.check_diagnostics(expectation, &compiled.diagnostics) {
        return;
    }
    let Some(plan) = compiled.plan.map(Arc::new) else { return judge.add_failure("there is no plan") };
    let ran = match run_plan(case, plan) {
        Ok(ran) => ran,
        Err(why) => return judge.add_failure(why),
    };
    let result = render_result(&ran.plan, &ran.outcome.state, &ran.outcome.env).result;
    let names: Vec<_> = ran.outcome.records.iter().map(|record| record.event.name()).collect();
    judge.compare_events(expectation, &names);
    for (key, expected) in expectation {
        let actual = match &**key {
            "warns" | "names" | "includes" | "excludes" => continue,
            // The original system raises an error if nothing can run; our runs, once started, never do.
            "raises" => Value::Null,
            "results" | "log" | "status" => result.get(key).cloned().unwrap_or_default(),
            "memory_after" => ran.memory.clone(),
            "llm_calls" => (ran.calls as i64).into(),
            other => return judge.add_failure(format!("the key {other:?} is not known")),
        };
        judge.compare_key(key, expected, Some(&actual));
    }
}

fn run_plan(case: &Value, plan: Arc<Plan>) -> Result<PipelineRun, String> {
    crate::block_on(async {
        let user = case.get("input").and_then(|input| input.get("user_id")?.as_str()).unwrap_or("user").to_owned();
        let journal = Arc::new(MemoryJournal::new());
        write_memory(&journal, case, &user).await.map_err(|error| error.to_string())?;
        let answers = Arc::new(ScriptedAnswers::new(case.get("script")));
        let world = CaseWorld::new(case);
        let effects = Effects {
            model: answers.clone(),
            http: answers.clone(),
            scraper: world.clone(),
            functions: world,
            code: crate::shared_sandbox(),
            clock: Arc::new(SystemClock),
        };
        let engine = connect_engine(Engine::new(effects, journal.clone()), &plan);
        let limits = flowloom_core::limits::Limits::default().narrow_to(&plan.limits);
        let inputs = Value::map::<&str>([]);
        let start =
            StartOptions { limits, ..StartOptions::new(plan.clone(), Hash::of_bytes(b"case"), inputs, user.clone()) };
        let outcome = engine.start_run(start).map_err(|error| error.to_string())?.drive_to_end().await;
        check_bound(&plan, &outcome.state);
        let memory = journal.read_memories(&user).await.map_err(|error| error.to_string())?.into();
        Ok(PipelineRun { plan, outcome, memory, calls: answers.call_count() })
    })
}

/// Writes a case's memory of the user to the journal, as an earlier run would have.
async fn write_memory(journal: &MemoryJournal, case: &Value, user: &str) -> Result<(), StepFailure> {
    let before = case.get("definition").and_then(|definition| definition.get("memory_before"));
    let Some(map) = before.and_then(|before| before.get(user)).and_then(Value::as_map) else { return Ok(()) };
    let run = RunId::new(0, [1; 10]);
    let lease = journal.begin_run(run)?;
    let created = RunCreated { user: user.to_owned(), ..earlier_run() };
    let memory =
        map.iter().map(|(key, value)| MemoryWrite { key: key.to_string(), value: Some(value.clone()) }).collect();
    let events = [
        Event::RunCreated(Box::new(created)),
        Event::StepFinished { output: None, usage: None, memory, reused: false, response: None },
    ];
    for (seq, event) in (1..).zip(events) {
        let record = Arc::new(Record { run, seq, at: 0, path: Path::root(), attempt: 0, event });
        match journal.append_batch(lease, Batch::with_records(vec![record])) {
            AppendResult::Done(result) => result?,
            AppendResult::Later(later) => later.await?,
        };
    }
    Ok(())
}

fn earlier_run() -> RunCreated {
    RunCreated {
        engine_semantics: flowloom_runtime::ENGINE_SEMANTICS,
        format: pipeline::FORMAT,
        name: "earlier".into(),
        bundle: Hash::of_bytes(b"earlier"),
        inputs: Value::Null,
        user: String::new(),
        agent: None,
        limits: flowloom_core::limits::Limits::default(),
        depth: 0,
        parent: None,
        workflow: None,
        thread_key: None,
        project: None,
        trace: None,
        fork: None,
        asks_first: false,
        trigger: None,
    }
}

/// Model answers in the order of calls.
pub(crate) struct ScriptedAnswers {
    script: Vec<Value>,
    used: Mutex<usize>,
}

impl ScriptedAnswers {
    pub(crate) fn new(script: Option<&Value>) -> ScriptedAnswers {
        let script = script.and_then(Value::as_list).unwrap_or_default().to_vec();
        ScriptedAnswers { script, used: Mutex::new(0) }
    }

    /// Number of answers that were requested.
    fn call_count(&self) -> usize {
        *self.used.lock()
    }

    pub(crate) fn next_answer(&self) -> Result<String, StepFailure> {
        let mut used = self.used.lock();
        let answer = self.script.get(*used);
        *used += 1;
        let answer = answer.ok_or_else(|| StepFailure::new(Code::ScriptExhausted, "there is no further answer"))?;
        Ok(render::render_text(answer, render::TextStyle::Json))
    }
}

/// The JSON in a text, if it matches a schema.
fn matching_json(schema: &Value, text: &str) -> Option<String> {
    let value = flowloom_core::json::read_lenient(text)?;
    crate::matches_schema(schema, &value).ok()?.then(|| render::to_json(&value))
}

impl Model for ScriptedAnswers {
    fn resolve(&self, named: Option<&str>) -> Result<String, StepFailure> {
        Ok(named.unwrap_or("scripted:case").to_owned())
    }

    /// Behaves like a provider without a JSON mode: takes the JSON in the answer, and asks once more if it is wrong.
    fn generate_reply<'a>(
        &'a self,
        request: &'a GenerateRequest,
        _context: &'a EffectContext,
    ) -> EffectFuture<'a, GenerateReply> {
        Box::pin(async move {
            let mut text = self.next_answer()?;
            if let Some(schema) = &request.schema {
                text = match matching_json(schema, &text) {
                    Some(json) => json,
                    None => {
                        let wrong = || StepFailure::new(Code::ModelNotJson, "the answer does not match the schema");
                        matching_json(schema, &self.next_answer()?).ok_or_else(wrong)?
                    }
                };
            }
            Ok(GenerateReply {
                text: Some(text),
                tool_calls: Vec::new(),
                usage: Usage::none(),
                ..GenerateReply::default()
            })
        })
    }

    fn context_window(&self, _model: &str) -> u64 {
        8192
    }

    fn count_tokens(&self, _model: &str, text: &str) -> u64 {
        text.len() as u64 / 4
    }

    fn default_max_tokens(&self, _model: &str) -> u64 {
        1024
    }

    fn find_price(&self, _model: &str) -> Option<Price> {
        None
    }
}

impl HttpSender for ScriptedAnswers {
    fn send_request<'a>(
        &'a self,
        request: &'a HttpRequest,
        _context: &'a EffectContext,
    ) -> EffectFuture<'a, HttpReply> {
        let message = format!("the case has no reply for {}", request.url.to_redacted_text());
        Box::pin(async move { Err(StepFailure::new(Code::HttpFailed, message)) })
    }
}
