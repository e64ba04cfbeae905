//! Plans built by hand for every kind of step. No format uses all kinds, and the journal must be right for each.

use std::sync::Arc;

use flowloom_core::chat::{Content, GenerateOptions, Role, ToolDeclaration};
use flowloom_core::expr::{Data, Expr, Missing, Part, Ref, Script, Template, TextRules};
use flowloom_core::limits::Limits;
use flowloom_core::path::Key;
use flowloom_core::plan::{Body, Capture, HttpSpec, *};
use flowloom_core::render::Style;
use flowloom_core::value::{Map, Value};

pub(crate) const RULES: TextRules =
    TextRules { missing: Missing::Keep, null_is_missing: false, style: Style::Json, keeps_type: false };

pub(crate) fn plan(root: Step) -> Plan {
    Plan {
        format: Format::new("steps"),
        id: None,
        name: "test".into(),
        description: String::new(),
        inputs: Inputs::Named { declared: Vec::new(), defaults: Map::new() },
        text: RULES,
        limits: Limits::default(),
        functions: Vec::new(),
        thread: None,
        root,
    }
}

pub(crate) fn reference(name: &str) -> Ref {
    Ref { name: name.into(), path: Vec::new(), source: format!("{{{name}}}").into() }
}

pub(crate) fn text(name: &str) -> Template {
    Template { parts: vec![Part::Text("see ".into()), Part::Ref(reference(name))] }
}

pub(crate) fn step(key: &str, kind: impl Into<Kind>) -> Step {
    let mut step = Step::new(Key::named(key).expect("clean"), kind);
    step.writes = vec![Write::to(key)];
    step
}

pub(crate) fn call(key: &str, function: &str) -> Step {
    let call = Call { function: function.into(), prompt: text("last"), extra: Vec::new(), arguments: None };
    let mut step = step(key, Leaf::Call(call));
    step.writes.push(Write::to("last"));
    step
}

pub(crate) fn sequence(key: &str, steps: Vec<Step>) -> Step {
    step(key, Composite::Sequence(steps))
}

fn generate() -> Generate {
    Generate {
        model: None,
        system: None,
        thread: Some("talk".into()),
        messages: vec![(Role::User, Data::Text(text("last")))],
        schema: None,
        options: GenerateOptions::default(),
        computed: None,
    }
}

fn http(key: &str, method: &str) -> Step {
    let url = Template::literal("http://example.test/a");
    let body = Body::Text(text("last"));
    step(key, Leaf::Http(HttpSpec { method: Template::literal(method), url, headers: Vec::new(), body }))
}

fn retried(key: &str, function: &str) -> Step {
    let mut step = call(key, function);
    step.policy.retry = Some(RetryRule { max: 3, base_ms: 100, cap_ms: 10_000 });
    step.policy.timeout_ms = Some(1000);
    step
}

fn continued(mut step: Step) -> Step {
    step.policy.on_error = OnError::Continue;
    step
}

fn looped(body: Step) -> Step {
    step(
        "rounds",
        Composite::Loop(Loop {
            body: Box::new(body),
            until: None,
            test: LoopTest::After,
            max: 3,
            exhausted: Exhausted::Succeed,
            counter: Some("index".into()),
            helper: None,
            scripts: Vec::new(),
            output: LoopOutput::All,
        }),
    )
}

fn machine() -> Step {
    let edge = |from, to, condition| Edge { from, to, condition };
    let second_visit = Expr::Contains(Box::new(Expr::Output), "#2".into());
    step(
        "walk",
        Composite::Machine(Machine {
            nodes: vec![call("ping", "f"), call("pong", "f")],
            entry: 0,
            edges: vec![edge(0, Some(1), None), edge(1, None, Some(second_visit)), edge(1, Some(0), None)],
            max_visits: 15,
            resets: Vec::new(),
        }),
    )
}

fn dag() -> Step {
    let node = |step, needs| DagNode { step, needs };
    step(
        "dag",
        Composite::Dag(Dag {
            nodes: vec![
                node(call("a", "f"), vec![]),
                node(continued(call("bad", "broken")), vec![]),
                node(call("b", "f"), vec![0]),
                node(call("never", "f"), vec![1, 0]),
                node(python("c"), vec![0, 2]),
            ],
            fails: false,
            skip_reason: "{} failed",
        }),
    )
}

fn agent() -> Step {
    let parameters = Value::map([("required", Value::list(vec!["n".into()]))]);
    let declaration = ToolDeclaration { name: "add".into(), description: "adds".into(), parameters };
    step(
        "agent",
        Composite::Agent(Agent {
            generate: Generate { thread: None, ..generate() },
            tools: vec![AgentTool { declaration, effect: ToolEffect::Function("f".into()), needs_approval: false }],
            limit: CallLimit::Rounds(4),
            must_call: false,
        }),
    )
}

/// An agent whose second tool is a workflow that may supply the agent's answer.
fn guide() -> Step {
    let declaration = ToolDeclaration { name: "look".into(), description: "looks".into(), parameters: Value::Null };
    let look = AgentTool { declaration, effect: ToolEffect::Flow("g".into()), needs_approval: false };
    let Kind::Composite(Composite::Agent(agent)) = agent().kind else { unreachable!("it is one") };
    let tools = [agent.tools.clone(), vec![look]].concat();
    step("guide", Composite::Agent(Agent { tools, limit: CallLimit::Calls(3), must_call: true, ..agent }))
}

/// A conversation between an agent and its tools, as two nodes of a machine.
fn talk() -> Step {
    let tool = |name: &str| ToolDeclaration { name: name.into(), description: String::new(), parameters: Value::Null };
    let add = AgentTool { declaration: tool("add"), effect: ToolEffect::Function("f".into()), needs_approval: false };
    let router = Router { tools: vec![tool("router")], destinations: vec!["END".into()], retries: 1 };
    let generate =
        Generate { system: Some(Data::Constant("be kind".into())), thread: Some("chat".into()), ..generate() };
    let calls = Expr::Field(Box::new(Expr::Output), "tool_calls".into());
    let none = Expr::Equals(Box::new(calls), Box::new(Expr::Constant(Value::list(Vec::new()))));
    let edge = |from, to, condition| Edge { from, to, condition };
    step(
        "conversation",
        Composite::Machine(Machine {
            nodes: vec![
                step(
                    "speaker",
                    Composite::Turn(Turn {
                        name: "speaker".into(),
                        generate,
                        tools: vec![add.clone()],
                        router: Some(router),
                        unanswered: None,
                    }),
                ),
                step("hands", Composite::Tools(Tools { thread: "chat".into(), tools: vec![add] })),
            ],
            entry: 0,
            edges: vec![edge(0, None, Some(none)), edge(0, Some(1), None), edge(1, Some(0), None)],
            max_visits: 15,
            resets: vec![1],
        }),
    )
}

/// A loop whose body has variables of its own, with scripts in every possible position.
fn story() -> Step {
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
    let (until, provided, said) =
        (script("until", &["$"]), script("provided", &["last"]), script("said", &["given", "$"]));
    let helper = Helper { names: vec!["$".into(), "$story".into()], history: true };
    let words = Template { parts: vec![Part::Text("say ".into()), Part::Expr(Arc::new(Expr::Script(said.clone())))] };
    let say =
        Say { thread: Some("chapter".into()), role: Role::User, content: Content::Blocks(vec![words]), written: true };
    let mut say = Step::new(Key::nth("say", 1), Composite::Say(say));
    say.scripts = vec![said];
    let write = Generate { messages: Vec::new(), thread: Some("chapter".into()), ..generate() };
    let body = Scoped {
        body: vec![say, step("chapter", Leaf::Generate(write))],
        provide: vec![("given".into(), Expr::Script(provided.clone()))],
        sees: vec!["$".into(), "$story".into()],
        gives: vec!["chapter".into()],
        helper: Some(helper.clone()),
    };
    let mut body = Step::new(Key::nth("scope", 1), Composite::Scoped(body));
    body.scripts = vec![provided];
    let third = Expr::Contains(Box::new(Expr::Script(until.clone())), "until~1[3]".into());
    step(
        "story",
        Composite::Loop(Loop {
            body: Box::new(body),
            until: Some(third),
            test: LoopTest::Before,
            max: 5,
            exhausted: Exhausted::Fail,
            counter: None,
            helper: Some(helper),
            scripts: vec![until],
            output: LoopOutput::All,
        }),
    )
}

fn scrape() -> Step {
    let url = Template::literal("http://example.test/page");
    let summary = Summary { instructions: "List the key points.", part_percent: 45, max_bytes_without_model: 8_000 };
    let messages = ScrapeMessages { no_url: "no address", no_match: "no match", no_content: "no content" };
    step("page", Leaf::Scrape(Scrape { url, capture: Capture::Text, selector: None, summary: Some(summary), messages }))
}

fn memory(key: &str, operation: MemoryOperation) -> Step {
    let prompt = Template::literal("{\"key\":\"k\",\"value\":7}");
    step(key, Leaf::Memory(MemoryStep { operation, prompt }))
}

fn branch() -> Step {
    let is_set = Expr::Ref(reference("first"));
    step(
        "choice",
        Composite::Branch {
            arms: vec![(Expr::Not(Box::new(is_set)), call("no", "f")), (Expr::Constant(true.into()), call("yes", "f"))],
            otherwise: None,
        },
    )
}

fn subflow() -> Step {
    let inner = plan(sequence("inner", vec![call("x", "f"), step("end", Composite::Return(Box::new(call("y", "f"))))]));
    step("sub", Composite::Subflow(Subflow { plan: Arc::new(inner), inputs: Data::Constant(Value::Null) }))
}

fn python(key: &str) -> Step {
    step(
        key,
        Leaf::Block(Block {
            id: "block".into(),
            code: BlockCode::Python { source: "code".into(), effect: EffectClass::AtLeastOnce },
            inputs: Data::Map(vec![("last".into(), Data::Text(text("last")))]),
            input_schema: None,
            output_schema: None,
            failure: Some("error".into()),
        }),
    )
}

fn ask() -> Step {
    step("ask", Leaf::Ask { question: text("last"), schema: None })
}

/// A plan with every kind of step that takes part in conversations.
pub(crate) fn conversations() -> Plan {
    plan(sequence(
        "all",
        vec![
            memory("all-of-it", MemoryOperation::All),
            memory("profile", MemoryOperation::Profile),
            step("fan", Composite::Parallel(vec![python("block"), call("beside", "f"), call("asker", "asks")])),
            talk(),
            story(),
            call("last", "f"),
        ],
    ))
}

/// A plan with all other kinds of steps that need no person.
pub(crate) fn everything() -> Plan {
    plan(sequence(
        "all",
        vec![
            step(
                "set",
                Composite::Assign(vec![Assignment {
                    name: Template::literal("last"),
                    value: Data::Constant("start".into()),
                    only_if_falsy: true,
                }]),
            ),
            call("first", "f"),
            step("generate", Leaf::Generate(generate())),
            http("get", "GET"),
            scrape(),
            memory("remember", MemoryOperation::Set),
            memory("recall", MemoryOperation::Get),
            step(
                "fan",
                Composite::Parallel(vec![
                    call("p1", "f"),
                    sequence("p2", vec![call("q1", "f"), call("q2", "f")]),
                    retried("p3", "flaky"),
                    continued(call("p4", "broken")),
                    looped(sequence("body", vec![call("in", "f"), retried("again", "flaky")])),
                ]),
            ),
            dag(),
            machine(),
            branch(),
            subflow(),
            agent(),
            guide(),
            python("block"),
            step("pause", Leaf::Wait { duration_ms: 60_000 }),
            call("last-call", "f"),
        ],
    ))
}

/// A plan with at-most-once effects and a question to a person.
pub(crate) fn delicate() -> Plan {
    plan(sequence(
        "delicate",
        vec![
            call("first", "f"),
            step(
                "fan",
                Composite::Parallel(vec![
                    http("post", "POST"),
                    sequence("talk", vec![ask(), call("after", "once")]),
                    call("other", "f"),
                ]),
            ),
            call("end", "f"),
        ],
    ))
}
