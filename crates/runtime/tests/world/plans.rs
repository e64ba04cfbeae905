//! Plans built by hand for every kind of step. No format uses all kinds, and the journal must be right for each.

use std::sync::Arc;

use flowloom_core::chat::{Content, GenerateOptions, Role, ToolDeclaration};
use flowloom_core::expr::{Data, Expr, Missing, Ref, Script, Template, TemplatePart, TextRules, Wording};
use flowloom_core::limits::Limits;
use flowloom_core::path::Key;
use flowloom_core::plan::{BodySpec, Capture, HttpSpec, *};
use flowloom_core::render::TextStyle;
use flowloom_core::value::{Map, Value};

pub(crate) const RULES: TextRules = TextRules {
    missing: Missing::Keep,
    null_is_missing: false,
    style: TextStyle::Json,
    keeps_type: false,
    wording: Wording::PLAIN,
};

pub(crate) fn make_plan(root: Step) -> Plan {
    Plan {
        format: Format::new("steps"),
        id: None,
        name: "test".into(),
        description: String::new(),
        inputs: Inputs::Named { declared: Vec::new(), defaults: Map::new(), accepts_others: true },
        text: RULES,
        limits: Limits::default(),
        functions: Vec::new(),
        thread: None,
        root,
    }
}

pub(crate) fn variable_ref(name: &str) -> Ref {
    Ref { name: name.into(), path: Vec::new(), source: format!("{{{name}}}").into() }
}

pub(crate) fn variable_text(name: &str) -> Template {
    Template { parts: vec![TemplatePart::Text("see ".into()), TemplatePart::Ref(variable_ref(name))] }
}

pub(crate) fn make_step(key: &str, kind: impl Into<StepKind>) -> Step {
    let mut step = Step::new(Key::from_name(key).expect("clean"), kind);
    step.writes = vec![Write::to_variable(key)];
    step
}

pub(crate) fn call_step(key: &str, function: &str) -> Step {
    let call = FunctionCall::with_prompt(function, variable_text("last"));
    let mut step = make_step(key, Leaf::Call(call));
    step.writes.push(Write::to_variable("last"));
    step
}

pub(crate) fn sequence_step(key: &str, steps: Vec<Step>) -> Step {
    make_step(key, Composite::Sequence(steps))
}

pub(crate) fn generate_spec() -> Generate {
    Generate {
        model: None,
        system: None,
        thread: Some("talk".into()),
        messages: vec![(Role::User, Data::Text(variable_text("last")))],
        schema: None,
        options: GenerateOptions::default(),
        computed: None,
    }
}

fn http_step(key: &str, method: &str) -> Step {
    let url = Template::from_literal("http://example.test/a");
    let body = BodySpec::Text(variable_text("last"));
    let (method, headers) = (Template::from_literal(method), Vec::new());
    make_step(key, Leaf::Http(HttpSpec { method, url, headers, body, uses_tool_host: false }))
}

fn retried_call(key: &str, function: &str) -> Step {
    let mut step = call_step(key, function);
    step.policy.retry = Some(RetryRule { max: 3, base_ms: 100, cap_ms: 10_000 });
    step.policy.timeout_ms = Some(1000);
    step
}

fn continue_on_error(mut step: Step) -> Step {
    step.policy.on_error = OnError::Continue;
    step
}

fn loop_step(body: Step) -> Step {
    make_step(
        "rounds",
        Composite::Loop(Loop {
            body: Box::new(body),
            until: None,
            test: LoopTest::After,
            max: 3,
            index_limits: Vec::new(),
            exhausted: Exhausted::Succeed,
            counter: Some("index".into()),
            helper: None,
            scripts: Vec::new(),
            output: LoopOutput::All,
        }),
    )
}

fn machine_step() -> Step {
    let edge = |from, to, condition| Edge { from, to, condition, label: None };
    let second_visit = Expr::Contains(Box::new(Expr::Output), "#2".into());
    make_step(
        "walk",
        Composite::Machine(Machine {
            nodes: vec![call_step("ping", "f"), call_step("pong", "f")],
            entry: 0,
            edges: vec![edge(0, Some(1), None), edge(1, None, Some(second_visit)), edge(1, Some(0), None)],
            max_visits: 15,
            resets: Vec::new(),
        }),
    )
}

fn dag_step() -> Step {
    let node = |step, needs| DagNode { step, needs };
    make_step(
        "dag",
        Composite::Dag(Dag {
            nodes: vec![
                node(call_step("a", "f"), vec![]),
                node(continue_on_error(call_step("bad", "broken")), vec![]),
                node(call_step("b", "f"), vec![0]),
                node(call_step("never", "f"), vec![1, 0]),
                node(python_step("c"), vec![0, 2]),
            ],
            fails: false,
            skip_reason: "{} failed",
        }),
    )
}

fn agent_step() -> Step {
    let parameters = Value::map([("required", Value::list(vec!["n".into()]))]);
    let declaration = ToolDeclaration { name: "add".into(), description: "adds".into(), parameters };
    make_step(
        "agent",
        Composite::Agent(Agent {
            generate: Generate { thread: None, ..generate_spec() },
            tools: vec![AgentTool {
                declaration,
                effect: ToolEffect::Function("f".into()),
                alias: None,
                needs_approval: false,
            }],
            available: None,
            limit: CallLimit::Rounds(4),
            must_call: false,
        }),
    )
}

/// An agent whose second tool is a workflow that may supply the agent's answer.
fn agent_with_flow_step() -> Step {
    let declaration = ToolDeclaration { name: "look".into(), description: "looks".into(), parameters: Value::Null };
    let look = AgentTool { declaration, effect: ToolEffect::Flow("g".into()), alias: None, needs_approval: false };
    let StepKind::Composite(Composite::Agent(agent)) = agent_step().kind else { unreachable!("it is one") };
    let tools = [agent.tools.clone(), vec![look]].concat();
    make_step("guide", Composite::Agent(Agent { tools, limit: CallLimit::Calls(3), must_call: true, ..agent }))
}

/// A conversation between an agent and its tools, as two nodes of a machine.
fn conversation_step() -> Step {
    let tool = |name: &str| ToolDeclaration { name: name.into(), description: String::new(), parameters: Value::Null };
    let add = AgentTool {
        declaration: tool("add"),
        effect: ToolEffect::Function("f".into()),
        alias: None,
        needs_approval: false,
    };
    let router = Router {
        tools: vec![tool("router")],
        argument: "to".into(),
        end: None,
        destinations: vec!["END".into()],
        retries: 1,
    };
    let generate =
        Generate { system: Some(Data::Constant("be kind".into())), thread: Some("chat".into()), ..generate_spec() };
    let calls = Expr::Field(Box::new(Expr::Output), "tool_calls".into());
    let none = Expr::Equals(Box::new(calls), Box::new(Expr::Constant(Value::list(Vec::new()))));
    let edge = |from, to, condition| Edge { from, to, condition, label: None };
    make_step(
        "conversation",
        Composite::Machine(Machine {
            nodes: vec![
                make_step(
                    "speaker",
                    Composite::Turn(Turn {
                        id: "speaker".into(),
                        name: "speaker".into(),
                        generate,
                        tools: vec![add.clone()],
                        router: Some(router),
                        not_run_reason: None,
                    }),
                ),
                make_step(
                    "hands",
                    Composite::Tools(CallTools {
                        thread: "chat".into(),
                        caller: Expr::Constant("speaker".into()),
                        tools: vec![add],
                        tools_by_turn: [("speaker".into(), vec![0])].into(),
                    }),
                ),
            ],
            entry: 0,
            edges: vec![edge(0, None, Some(none)), edge(0, Some(1), None), edge(1, Some(0), None)],
            max_visits: 15,
            resets: vec![1],
        }),
    )
}

/// A loop whose body has variables of its own, with scripts in every possible position.
pub(crate) fn story_step() -> Step {
    let script = |slot: &str, names: &[&str]| {
        let names = names.iter().map(|name| (*name).into()).collect();
        Arc::new(Script {
            slot: slot.into(),
            source: format!("{slot}()").into(),
            names,
            span: Default::default(),
            place: Default::default(),
        })
    };
    let (until, provided, text) =
        (script("until", &["$"]), script("provided", &["last"]), script("said", &["given", "$"]));
    let helper = LoopHelper { names: vec!["$".into(), "$story".into()], history: true };
    let words = Template {
        parts: vec![TemplatePart::Text("say ".into()), TemplatePart::Expr(Arc::new(Expr::Script(text.clone())))],
    };
    let append = AppendMessage {
        thread: Some("chapter".into()),
        role: Role::User,
        content: Content::Blocks(vec![words]),
        in_transcript: true,
    };
    let mut append = Step::new(Key::numbered_key("say", 1), Composite::AppendMessage(append));
    append.scripts = vec![text];
    let write = Generate { messages: Vec::new(), thread: Some("chapter".into()), ..generate_spec() };
    let body = ScopedSteps {
        body: vec![append, make_step("chapter", Leaf::Generate(write))],
        provide: vec![("given".into(), Expr::Script(provided.clone()))],
        sees: vec!["$".into(), "$story".into()],
        gives: vec!["chapter".into()],
        helper: Some(helper.clone()),
    };
    let mut body = Step::new(Key::numbered_key("scope", 1), Composite::Scoped(body));
    body.scripts = vec![provided];
    let third = Expr::Contains(Box::new(Expr::Script(until.clone())), "until~1[3]".into());
    make_step(
        "story",
        Composite::Loop(Loop {
            body: Box::new(body),
            until: Some(third),
            test: LoopTest::Before,
            max: 5,
            index_limits: Vec::new(),
            exhausted: Exhausted::Fail,
            counter: None,
            helper: Some(helper),
            scripts: vec![until],
            output: LoopOutput::All,
        }),
    )
}

fn scrape_step() -> Step {
    let url = Template::from_literal("http://example.test/page");
    let summary = Summary { instructions: "List the key points.", part_percent: 45, max_bytes_without_model: 8_000 };
    let messages = ScrapeMessages { no_url: "no address", no_match: "no match", no_content: "no content" };
    make_step(
        "page",
        Leaf::Scrape(Scrape { url, capture: Capture::Text, selector: None, summary: Some(summary), messages }),
    )
}

fn memory_step(key: &str, operation: MemoryOperation) -> Step {
    let prompt = Template::from_literal("{\"key\":\"k\",\"value\":7}");
    make_step(key, Leaf::Memory(MemoryStep { operation, prompt, has_default_prompt: false }))
}

fn branch_step() -> Step {
    let is_set = Expr::Ref(variable_ref("first"));
    make_step(
        "choice",
        Composite::Branch {
            arms: vec![
                (Expr::Not(Box::new(is_set)), call_step("no", "f")),
                (Expr::Constant(true.into()), call_step("yes", "f")),
            ],
            otherwise: None,
        },
    )
}

fn subflow_step() -> Step {
    let inner = make_plan(sequence_step(
        "inner",
        vec![call_step("x", "f"), make_step("end", Composite::Return(Box::new(call_step("y", "f"))))],
    ));
    make_step("sub", Composite::Subflow(Subflow { plan: Arc::new(inner), inputs: Data::Constant(Value::Null) }))
}

pub(crate) fn python_step(key: &str) -> Step {
    make_step(
        key,
        Leaf::Block(Block {
            id: "block".into(),
            code: BlockCode::Python { source: "code".into(), effect: EffectClass::AtLeastOnce },
            inputs: Data::Map(vec![("last".into(), Data::Text(variable_text("last")))]),
            input_schema: None,
            output_schema: None,
            failure: Some("error".into()),
        }),
    )
}

fn ask_step() -> Step {
    make_step("ask", Leaf::Ask { question: variable_text("last"), schema: None })
}

/// A plan with every kind of step that takes part in conversations.
pub(crate) fn conversation_plan() -> Plan {
    make_plan(sequence_step(
        "all",
        vec![
            memory_step("all-of-it", MemoryOperation::All),
            memory_step("profile", MemoryOperation::Profile),
            make_step(
                "fan",
                Composite::Parallel(vec![python_step("block"), call_step("beside", "f"), call_step("asker", "asks")]),
            ),
            conversation_step(),
            story_step(),
            call_step("last", "f"),
        ],
    ))
}

/// A plan with all other kinds of steps that need no person.
pub(crate) fn full_plan() -> Plan {
    make_plan(sequence_step(
        "all",
        vec![
            make_step(
                "set",
                Composite::Assign(vec![Assignment {
                    name: Template::from_literal("last"),
                    value: Data::Constant("start".into()),
                    only_if_falsy: true,
                }]),
            ),
            call_step("first", "f"),
            make_step("generate", Leaf::Generate(generate_spec())),
            http_step("get", "GET"),
            scrape_step(),
            memory_step("remember", MemoryOperation::Set),
            memory_step("recall", MemoryOperation::Get),
            make_step(
                "fan",
                Composite::Parallel(vec![
                    call_step("p1", "f"),
                    sequence_step("p2", vec![call_step("q1", "f"), call_step("q2", "f")]),
                    retried_call("p3", "flaky"),
                    continue_on_error(call_step("p4", "broken")),
                    loop_step(sequence_step("body", vec![call_step("in", "f"), retried_call("again", "flaky")])),
                ]),
            ),
            dag_step(),
            machine_step(),
            branch_step(),
            subflow_step(),
            agent_step(),
            agent_with_flow_step(),
            python_step("block"),
            make_step("pause", Leaf::Wait { duration_ms: 60_000 }),
            call_step("last-call", "f"),
        ],
    ))
}

/// A plan with at-most-once effects and a question to a person.
pub(crate) fn at_most_once_plan() -> Plan {
    make_plan(sequence_step(
        "delicate",
        vec![
            call_step("first", "f"),
            make_step(
                "fan",
                Composite::Parallel(vec![
                    http_step("post", "POST"),
                    sequence_step("talk", vec![ask_step(), call_step("after", "once")]),
                    call_step("other", "f"),
                ]),
            ),
            call_step("end", "f"),
        ],
    ))
}
