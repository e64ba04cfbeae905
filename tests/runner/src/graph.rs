//! Cases of the `graph` format: scripted agents and tools, on virtual time.

use std::collections::HashMap;
use std::sync::Arc;

use flowloom_core::chat::{Role, ToolCall, Usage};
use flowloom_core::code::Code;
use flowloom_core::diagnostic::Diagnostic;
use flowloom_core::effect::{GenerateReply, GenerateRequest, HttpReply, HttpRequest};
use flowloom_core::error::StepFailure;
use flowloom_core::hash::Hash;
use flowloom_core::limits::Limits;
use flowloom_core::path::Path;
use flowloom_core::plan::{Composite, Machine, Plan, StepKind};
use flowloom_core::render;
use flowloom_core::state::Phase;
use flowloom_core::status::Status;
use flowloom_core::value::{Map, Value};
use flowloom_formats::{Compiled, Sources, compile, render_result};
use flowloom_runtime::command::{CommandAction, RunCommand};
use flowloom_runtime::effects::{
    Clock as _, EffectContext, EffectFuture, Effects, HttpSender, Model, NoCodeRunner, Price,
};
use flowloom_runtime::memory::MemoryJournal;
use flowloom_runtime::sim::SimClock;
use flowloom_runtime::{Engine, RunOutcome, StartOptions};
use parking_lot::{Mutex, MutexGuard};

use crate::bound_check::check_bound;
use crate::engines::{block_on_clock, connect_engine};
use crate::expectation::CaseJudge;
use crate::world::CaseWorld;

pub(crate) fn judge_graph(case: &Value, expectation: &Map, judge: &mut CaseJudge) {
    let compiled = compile_graph(case, false);
    let validates = case.get("input").and_then(|input| input.get("action")).and_then(Value::as_str) == Some("validate");
    if validates {
        return judge_validation(case, expectation, &compiled, judge);
    }
    if judge.check_diagnostics(expectation, &compiled.diagnostics) {
        return;
    }
    let Some(plan) = compiled.plan.map(Arc::new) else { return judge.add_failure("there is no plan") };
    let agents = Arc::new(ScriptedAgents::new(case, &plan));
    let outcomes = match run_turns(case, &agents, plan.clone()) {
        Ok(outcomes) => outcomes,
        Err(why) => return judge.add_failure(why),
    };
    let facts: Vec<GraphFacts<'_>> = outcomes.iter().map(|outcome| GraphFacts::new(&plan, outcome, &agents)).collect();
    for (key, expected) in expectation {
        match &**key {
            "warns" | "names" | "includes" | "excludes" => {}
            "turns" => compare_turns(expected, &facts, judge),
            key => match value_over_turns(key, expected, &facts) {
                Some(actual) => judge.compare_key(key, expected, Some(&actual)),
                None => judge.add_failure(format!("the key {key:?} is not known")),
            },
        }
    }
    let names: Vec<_> =
        outcomes.iter().flat_map(|outcome| &outcome.records).map(|record| record.event.name()).collect();
    judge.compare_events(expectation, &names);
}

/// Compares the expectations of each turn.
fn compare_turns(expected: &Value, facts: &[GraphFacts<'_>], judge: &mut CaseJudge) {
    let expected = expected.as_list().unwrap_or_default();
    judge.compare_key("turns", &(expected.len() as i64).into(), Some(&(facts.len() as i64).into()));
    for (expected, facts) in expected.iter().zip(facts) {
        for (key, expected) in expected.as_map().into_iter().flat_map(|map| map.iter()) {
            match facts.actual_value(key) {
                Some(actual) => judge.compare_key(&format!("turns.{key}"), expected, Some(&actual)),
                None => judge.add_failure(format!("the key turns.{key} is not known")),
            }
        }
    }
}

/// A fact over all turns: one value per turn if that is expected, the nodes of all turns as one list, otherwise the
/// value of the last turn.
fn value_over_turns(key: &str, expected: &Value, facts: &[GraphFacts<'_>]) -> Option<Value> {
    let each: Vec<Value> = facts.iter().map(|facts| facts.actual_value(key)).collect::<Option<_>>()?;
    let is_list = |value: &Value| value.as_list().is_some();
    let items = expected.as_list().unwrap_or_default();
    let is_each =
        facts.len() > 1 && items.len() == facts.len() && items.iter().all(is_list) == each.iter().all(is_list);
    match key {
        _ if is_each && !items.is_empty() => Some(Value::list(each)),
        "node_trace" => {
            Some(Value::list(each.iter().flat_map(|trace| trace.as_list().unwrap_or_default()).cloned().collect()))
        }
        "node_runs" => Some(each.iter().filter_map(Value::as_i64).sum::<i64>().into()),
        _ => each.into_iter().last(),
    }
}

fn compile_graph(case: &Value, is_lenient: bool) -> Compiled {
    let part = |key: &str| case.get(key).cloned().unwrap_or_default();
    let file = Value::map([("workflow", part("definition")), ("agents", part("agents"))]);
    let files = [("graph.json".to_owned(), render::to_json(&file).into_bytes())].into();
    let sources = Sources { files, is_lenient, source_bytes: 1 << 20, ..Sources::default() };
    compile("graph.json", &sources, Some(flowloom_formats::graph::FORMAT))
}

/// Runs every turn of a case. If the run waits for a person, the next message is its answer.
fn run_turns(case: &Value, agents: &Arc<ScriptedAgents>, plan: Arc<Plan>) -> Result<Vec<RunOutcome>, String> {
    let world = CaseWorld::new(case);
    let effects = Effects {
        model: agents.clone(),
        http: agents.clone(),
        scraper: world.clone(),
        functions: world,
        code: Arc::new(NoCodeRunner),
        clock: Arc::new(agents.clock.clone()),
    };
    let journal = Arc::new(MemoryJournal::new());
    let input = case.get("input").cloned().unwrap_or_default();
    let number = |key: &str| input.get(key).and_then(Value::as_i64).and_then(|number| u64::try_from(number).ok());
    let limits = Limits { time_ms: number("timeoutMs").or(plan.limits.time_ms), ..Limits::default() };
    let mut plan = (*plan).clone();
    if let (Some(most), StepKind::Composite(Composite::Machine(machine))) = (number("maxSteps"), &mut plan.root.kind) {
        machine.max_visits = most;
    }
    let plan = Arc::new(plan);
    let engine = connect_engine(Engine::new(effects, journal.clone()), &plan);
    let turns = input.get("turns").or_else(|| case.get("turns")).and_then(Value::as_list).map(<[Value]>::to_vec);
    let mut outcomes: Vec<RunOutcome> = Vec::new();
    for turn in turns.unwrap_or_else(|| vec![input.clone()]) {
        let new = turn_messages(&turn);
        let work = async {
            if let Some(last) = outcomes.last().filter(|last| last.state.status == Status::Waiting) {
                let step = last.state.steps().iter().find(|step| step.phase == Phase::Waiting);
                let path = step.map(|step| step.path.clone()).unwrap_or_else(Path::root);
                let answer = new.last().and_then(|message| message.get("content")).cloned().unwrap_or_default();
                let action = CommandAction::Answer { path, value: answer };
                let id = last.records.len().to_string();
                journal.post_command(last.id, RunCommand { id, sender: "case".to_owned(), action })?;
                let plan = plan.clone();
                return Ok(engine.resume_run(last.id, plan).await?.drive_to_end().await);
            }
            let before = outcomes.last().map(|last| render_result(&plan, &last.state, &last.env).result);
            let before = before.and_then(|result| result.get("messages")?.as_list().map(<[Value]>::to_vec));
            let messages: Vec<Value> = before.unwrap_or_default().into_iter().chain(new).collect();
            let start = StartOptions {
                limits: limits.clone(),
                ..StartOptions::new(
                    plan.clone(),
                    Hash::of_bytes(b"case"),
                    Value::map([("messages", Value::list(messages))]),
                    "local",
                )
            };
            Ok(engine.start_run(start)?.drive_to_end().await)
        };
        let ended: Result<RunOutcome, StepFailure> =
            block_on_clock(&agents.clock, work).ok_or_else(|| "the run never ends".to_owned())?;
        let outcome = ended.map_err(|error| format!("the run does not start: {error}"))?;
        check_bound(&plan, &outcome.state);
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// The user messages of a turn: a text, a message, messages, or an object that contains some.
fn turn_messages(turn: &Value) -> Vec<Value> {
    match turn {
        Value::List(messages) => messages.iter().flat_map(parse_messages).collect(),
        other => parse_messages(other),
    }
}

fn parse_messages(turn: &Value) -> Vec<Value> {
    let user = |text: &Value| Value::map([("role", Value::from("user")), ("content", text.clone())]);
    match (turn.get("messages").and_then(Value::as_list), turn.get("role"), turn) {
        (Some(messages), ..) => messages.to_vec(),
        (_, Some(_), message) => vec![message.clone()],
        (_, _, text @ Value::String(_)) => vec![user(text)],
        _ => {
            ["message", "content", "user", "input"].iter().find_map(|key| turn.get(key)).map(user).into_iter().collect()
        }
    }
}

/// Compares the diagnostics of a definition that is not run.
fn judge_validation(case: &Value, expectation: &Map, compiled: &Compiled, judge: &mut CaseJudge) {
    let messages = |keep: &dyn Fn(&Diagnostic) -> bool| -> Vec<Value> {
        compiled.diagnostics.iter().filter(|d| keep(d)).map(|d| d.message.as_str().into()).collect()
    };
    if expectation.contains_key("refused") {
        let kept = expectation.iter().filter(|(key, _)| matches!(&***key, "refused" | "names"));
        judge
            .check_diagnostics(&kept.map(|(key, value)| (key.clone(), value.clone())).collect(), &compiled.diagnostics);
    }
    for (key, expected) in expectation {
        match &**key {
            "refused" | "names" => {}
            "valid" => judge.compare_key(key, expected, Some(&compiled.plan.is_some().into())),
            "errors" => compare_texts(judge, expected, messages(&Diagnostic::is_error)),
            // The original system's only warning is about unreachable nodes.
            "warnings" => compare_texts(judge, expected, messages(&|d| d.code == Code::Unreachable)),
            "error_edges" => judge.compare_key(key, expected, Some(&dangling_edges(&compiled.diagnostics))),
            "lenient_load" => judge.compare_key(key, expected, Some(&lenient_load(case))),
            other => judge.add_failure(format!("the key {other:?} is not known")),
        }
    }
}

/// Compares the facts of texts, one by one.
fn compare_texts(judge: &mut CaseJudge, expected: &Value, actual: Vec<Value>) {
    let expected = expected.as_list().unwrap_or_default();
    judge.compare_key("count", &(expected.len() as i64).into(), Some(&(actual.len() as i64).into()));
    for (expected, actual) in expected.iter().zip(&actual) {
        judge.compare_key("error", expected, Some(actual));
    }
}

/// Ids of the edges that lead nowhere.
fn dangling_edges(diagnostics: &[Diagnostic]) -> Value {
    let edges = diagnostics.iter().filter(|d| d.code == Code::DanglingEdge);
    Value::list(edges.filter_map(|d| d.message.split(' ').next()).map(Value::from).collect())
}

/// The part of a definition that a lenient load accepts.
fn lenient_load(case: &Value) -> Value {
    let compiled = compile_graph(case, true);
    let names = compiled
        .plan
        .as_ref()
        .and_then(plan_machine)
        .map(|machine| Value::list(machine.nodes.iter().map(|node| node.title.as_str().into()).collect()));
    Value::map([
        ("dropped_edges", dangling_edges(&compiled.diagnostics)),
        ("node_trace_possible", names.unwrap_or_default()),
    ])
}

fn plan_machine(plan: &Plan) -> Option<&Machine> {
    if let StepKind::Composite(Composite::Machine(machine)) = &plan.root.kind { Some(machine) } else { None }
}

/// Actual values, by the keys of expectations.
struct GraphFacts<'a> {
    result: Value,
    outcome: &'a RunOutcome,
    agents: &'a ScriptedAgents,
}

impl<'a> GraphFacts<'a> {
    fn new(plan: &Plan, outcome: &'a RunOutcome, agents: &'a ScriptedAgents) -> GraphFacts<'a> {
        GraphFacts { result: render_result(plan, &outcome.state, &outcome.env).result, outcome, agents }
    }

    fn actual_value(&self, key: &str) -> Option<Value> {
        if let Some(node) = key.strip_prefix("router_tool_enum_for_") {
            return Some(self.agents.router_enum(node));
        }
        let trace = || self.result.get("node_trace").and_then(Value::as_list).unwrap_or_default().to_vec();
        Some(match key {
            "node_trace" | "end_reason" | "final_text" | "next" => self.result.get(key)?.clone(),
            "node_runs" => (trace().len() as i64).into(),
            "end_tool_gets_no_executor_visit" => (!trace().contains(&"tool_executor".into())).into(),
            "error_code" => match self.outcome.state.error.as_ref().map(|error| error.code) {
                Some(Code::LimitIterations) => "GRAPH_RECURSION_LIMIT".into(),
                Some(code) => code.to_string().into(),
                None => Value::Null,
            },
            "late_answer_discarded" => {
                (!self.result_messages().iter().any(|message| message_role(message) == "assistant")).into()
            }
            "tools_offered" => self.agents.available_tools(),
            "system_prompt" => self.agents.lock_state().system.clone().into(),
            "tool_calls" => Value::list(self.executor_visits().flat_map(|(_, results)| results).collect()),
            "routing_uses_tool" => {
                let tool =
                    self.executor_visits().last().map(|(tool, _)| render::render_text(&tool, render::TextStyle::Json));
                format!("{} (the last one in the answer)", tool.unwrap_or_default()).into()
            }
            "messages_shape" => {
                Value::list(self.result_messages().iter().map(|message| message_shape(message).into()).collect())
            }
            "tool_message_order" => Value::list(self.tool_answers().map(|message| call_id(&message)).collect()),
            "tool_messages" => Value::list(self.tool_answers().map(|message| tool_message(&message)).collect()),
            _ => return None,
        })
    }

    fn result_messages(&self) -> Vec<Value> {
        self.result.get("messages").and_then(Value::as_list).unwrap_or_default().to_vec()
    }

    fn tool_answers(&self) -> impl Iterator<Item = Value> {
        self.result_messages().into_iter().filter(|message| message_role(message) == "tool")
    }

    /// Visits of the executor: the tool that decides on the next node, and all calls with their results.
    fn executor_visits(&self) -> impl Iterator<Item = (Value, Vec<Value>)> {
        self.outcome.env.vars.get("executed").and_then(Value::as_list).unwrap_or_default().iter().map(|output| {
            let results = output.get("results").and_then(Value::as_list).unwrap_or_default().to_vec();
            (output.get("tool").cloned().unwrap_or_default(), results)
        })
    }
}

fn message_role(message: &Value) -> &str {
    message.get("role").and_then(Value::as_str).unwrap_or_default()
}

fn call_id(message: &Value) -> Value {
    message.get("tool_call_id").cloned().unwrap_or_default()
}

fn message_shape(message: &Value) -> String {
    match (message_role(message), message.get("tool_calls")) {
        ("assistant", Some(_)) => "assistant+tool_calls".to_owned(),
        ("tool", _) => format!("tool(call {})", call_id(message).as_str().unwrap_or_default()),
        (role, _) => role.to_owned(),
    }
}

fn tool_message(message: &Value) -> Value {
    let text = message.get("content").and_then(Value::as_str).unwrap_or_default();
    let status = if text.starts_with("Error: ") { "error" } else { "success" };
    Value::map([("call", call_id(message)), ("status", status.into()), ("text", text.into())])
}

/// The agents and tools of a case.
struct ScriptedAgents {
    clock: SimClock,
    case: Value,
    /// Names of nodes by their key in paths.
    names: HashMap<String, String>,
    state: Mutex<AgentRequests>,
}

/// Requests that the agents received.
#[derive(Default)]
struct AgentRequests {
    turns: HashMap<String, usize>,
    system: String,
    available: Vec<(String, Vec<String>)>,
    enums: HashMap<String, Value>,
}

impl ScriptedAgents {
    fn new(case: &Value, plan: &Plan) -> ScriptedAgents {
        let nodes = plan_machine(plan).map(|machine| machine.nodes.as_slice()).unwrap_or_default();
        ScriptedAgents {
            clock: SimClock::new(1_700_000_000_000),
            case: case.clone(),
            names: nodes.iter().map(|node| (node.key.as_str().to_owned(), node.title.clone())).collect(),
            state: Mutex::default(),
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, AgentRequests> {
        self.state.lock()
    }

    fn router_enum(&self, node: &str) -> Value {
        self.lock_state().enums.get(node).cloned().unwrap_or_default()
    }

    /// Tools by node; if there is only one node, the list itself.
    fn available_tools(&self) -> Value {
        let state = self.lock_state();
        let list = |names: &[String]| Value::list(names.iter().map(|name| name.as_str().into()).collect());
        match state.available.as_slice() {
            [(_, names)] if self.names.len() == 1 => list(names),
            all => Value::map(all.iter().map(|(node, names)| (node.as_str(), list(names)))),
        }
    }

    /// The next entry of a script: a list in order, or a single entry that is repeated.
    fn next_entry(&self, kind: &str, name: &str) -> Option<Value> {
        let script = self.case.get("script")?.get(kind)?.get(name)?;
        if let Some(repeated) = script.get("repeat") {
            return Some(repeated.clone());
        }
        let mut state = self.lock_state();
        let turn = state.turns.entry(format!("{kind}/{name}")).or_default();
        *turn += 1;
        script.as_list()?.get(*turn - 1).cloned()
    }

    fn record_request(&self, node: &str, request: &GenerateRequest) {
        let mut state = self.lock_state();
        if let Some(system) = request.messages.iter().find(|message| message.role == Role::System) {
            state.system = system.content.clone();
        }
        if !state.available.iter().any(|(name, _)| name == node) {
            let names = request.tools.iter().map(|tool| tool.name.clone()).collect();
            state.available.push((node.to_owned(), names));
        }
        let router = request.tools.iter().find(|tool| tool.name == "router");
        let places = router.and_then(|tool| tool.parameters.get("properties")?.get("next_node")?.get("enum")).cloned();
        state.enums.insert(node.to_owned(), places.unwrap_or_default());
    }
}

impl Model for ScriptedAgents {
    fn resolve(&self, named: Option<&str>) -> Result<String, StepFailure> {
        Ok(named.unwrap_or("scripted:case").to_owned())
    }

    fn generate_reply<'a>(
        &'a self,
        request: &'a GenerateRequest,
        context: &'a EffectContext,
    ) -> EffectFuture<'a, GenerateReply> {
        Box::pin(async move {
            let key = context.path.as_str().trim_start_matches('/').split(['#', '/']).next().unwrap_or_default();
            let node = self.names.get(key).cloned().unwrap_or_default();
            self.record_request(&node, request);
            let Some(answer) = self.next_entry("llm", &node) else {
                return Err(StepFailure::new(Code::ScriptExhausted, format!("{node} has no further answer")));
            };
            if let Some(delay) = answer.get("delay_ms").and_then(Value::as_i64) {
                self.clock.sleep_for(u64::try_from(delay).unwrap_or(0)).await;
            }
            let calls = answer.get("tool_calls").and_then(Value::as_list).unwrap_or_default();
            let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let call = |call: &Value| {
                ToolCall::new(text(call, "id"), text(call, "name"), call.get("args").cloned().unwrap_or_default())
            };
            let tool_calls = calls.iter().map(call).collect();
            Ok(GenerateReply {
                text: Some(text(&answer, "content")),
                tool_calls,
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

impl HttpSender for ScriptedAgents {
    fn send_request<'a>(
        &'a self,
        request: &'a HttpRequest,
        _context: &'a EffectContext,
    ) -> EffectFuture<'a, HttpReply> {
        Box::pin(async move {
            let url = request.url.to_redacted_text();
            let agents = self.case.get("agents").and_then(Value::as_list).unwrap_or_default();
            let tools = agents.iter().filter_map(|agent| agent.get("tools")?.as_list()).flatten();
            let of_path = |tool: &&Value| {
                tool.get("internalApiPath").and_then(Value::as_str).is_some_and(|path| url.ends_with(path))
            };
            let tool = tools.into_iter().find(of_path);
            let name = tool.and_then(|tool| tool.get("name")?.as_str()).unwrap_or_default();
            let result = self.next_entry("tools", name).unwrap_or_default();
            if let Some(message) = result.get("throw").and_then(Value::as_str) {
                return Err(StepFailure::new(Code::HttpFailed, message));
            }
            let body = render::render_text(&result, render::TextStyle::Json);
            Ok(HttpReply { status: 200, headers: Vec::new(), body })
        })
    }
}
