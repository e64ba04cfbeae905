//! One plan for each way in which a run can fail by itself: limits, budgets, missing values, a diverging record.

#[allow(dead_code)]
#[path = "world/plans.rs"]
mod plans;
#[allow(dead_code)]
mod world;

use std::sync::Arc;

use flowloom_core::chat::content::Content;
use flowloom_core::chat::{GenerateOptions, Role};
use flowloom_core::code::Code;
use flowloom_core::event::{Event, Record};
use flowloom_core::expr::{Data, Missing, Template, TextRules};
use flowloom_core::hash::Hash;
use flowloom_core::limits::Limits;
use flowloom_core::plan::*;
use flowloom_core::state::Phase;
use flowloom_core::status::Status;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::command::{CommandAction, CommandOutcome, RunCommand};
use flowloom_runtime::effects::{Effects, NoCodeRunner};
use flowloom_runtime::memory::MemoryJournal;
use flowloom_runtime::{Engine, RunOutcome, StartOptions};
use plans::{RULES, call_step, make_plan, make_step, sequence_step, story_step, variable_text};
use world::World;

/// A run of one plan with its own effects.
struct Trial {
    world: World,
    journal: Arc<MemoryJournal>,
    engine: Engine,
    plan: Arc<Plan>,
    limits: Limits,
}

impl Trial {
    fn new(root: Step) -> Trial {
        Trial::with_effects(make_plan(root), |_| {})
    }

    fn with_effects(plan: Plan, change: impl FnOnce(&mut Effects)) -> Trial {
        let (world, journal) = (World::new(1), Arc::new(MemoryJournal::new()));
        let mut effects = world.make_effects();
        change(&mut effects);
        let engine = Engine::new(effects, journal.clone());
        Trial { world, journal, engine, plan: Arc::new(plan), limits: Limits::default() }
    }

    fn with_limits(mut self, limits: Limits) -> Trial {
        self.limits = limits;
        self
    }

    fn start_run(&self) -> Result<flowloom_runtime::Run, flowloom_runtime::RunError> {
        self.engine.start_run(StartOptions {
            limits: self.limits.clone(),
            ..StartOptions::new(self.plan.clone(), Hash::of_bytes(b"bundle"), Value::Null, "local")
        })
    }

    fn run(&self) -> RunOutcome {
        let run = self.start_run().expect("accepted");
        self.world.clock.block_on(run.drive_to_end()).expect("no deadlock")
    }

    #[track_caller]
    fn assert_failure(&self, status: Status, code: Code) {
        let outcome = self.run();
        let error = outcome.state.error.as_ref().map(|error| error.code);
        assert_eq!((outcome.state.status, error), (status, Some(code)), "{:?}", outcome.state.error);
        // A replay of the record reproduces the failure.
        let replay = self.engine.replay_run(outcome.records.clone(), self.plan.clone());
        let replayed = self.world.clock.block_on(replay).expect("no deadlock").expect("no divergence");
        assert_eq!(replayed.state.status, status);
    }
}

fn loop_step(body: Step, exhausted: Exhausted) -> Step {
    let looped = Loop {
        body: Box::new(body),
        until: None,
        test: LoopTest::After,
        max: 3,
        index_limits: Vec::new(),
        exhausted,
        counter: None,
        helper: None,
        scripts: Vec::new(),
        output: LoopOutput::Last,
    };
    make_step("rounds", Composite::Loop(looped))
}

fn ask_model() -> Step {
    let generate = Generate {
        model: None,
        system: None,
        thread: None,
        messages: vec![(Role::User, Data::Text(variable_text("last")))],
        schema: None,
        options: GenerateOptions::default(),
        computed: None,
    };
    make_step("say", Leaf::Generate(generate))
}

fn nested_steps(depth: u32) -> Step {
    (0..depth).fold(call_step("leaf", "f"), |inner, level| sequence_step(&format!("l{level}"), vec![inner]))
}

fn nested_workflows(depth: u32) -> Step {
    (0..depth).fold(call_step("leaf", "f"), |inner, level| {
        let inner = Subflow { plan: Arc::new(make_plan(inner)), inputs: Data::Constant(Value::Null) };
        make_step(&format!("w{level}"), Composite::Subflow(inner))
    })
}

#[test]
fn every_limit_ends_the_run_with_its_code() {
    let one = Limits { steps: 1, ..Limits::default() };
    let two_calls = || sequence_step("s", vec![call_step("a", "f"), call_step("b", "f")]);
    Trial::new(two_calls()).with_limits(one).assert_failure(Status::BudgetExceeded, Code::LimitSteps);
    Trial::new(loop_step(call_step("a", "f"), Exhausted::Fail)).assert_failure(Status::Failed, Code::LimitIterations);
    let few = Limits { iterations: 2, ..Limits::default() };
    Trial::new(loop_step(call_step("a", "f"), Exhausted::Succeed))
        .with_limits(few)
        .assert_failure(Status::Failed, Code::LimitIterations);
    Trial::new(nested_steps(100)).assert_failure(Status::Failed, Code::LimitNesting);
    Trial::new(nested_workflows(9)).assert_failure(Status::Failed, Code::LimitSubflow);
    let small = Limits { output_bytes: 100, ..Limits::default() };
    Trial::new(call_step("a", "big")).with_limits(small).assert_failure(Status::Failed, Code::LimitOutput);
    let two_large = sequence_step("s", vec![call_step("a", "big"), call_step("b", "big")]);
    let total = Limits { total_output_bytes: 1_500, ..Limits::default() };
    Trial::new(two_large).with_limits(total).assert_failure(Status::Failed, Code::LimitOutput);
    let short = Limits { time_ms: Some(1000), ..Limits::default() };
    Trial::new(call_step("a", "hang")).with_limits(short).assert_failure(Status::TimedOut, Code::LimitTime);
}

/// A loop whose iterations each add a text of 100 bytes to the transcript.
fn repeated_message() -> Step {
    let text = Template::from_literal(&"x".repeat(100));
    let append =
        AppendMessage { thread: None, role: Role::User, content: Content::Blocks(vec![text]), in_transcript: true };
    loop_step(make_step("say", Composite::AppendMessage(append)), Exhausted::Succeed)
}

fn assigned_variable() -> Step {
    let value = Data::Constant(Value::from("x".repeat(1_000).as_str()));
    let row = Assignment { name: Template::from_literal("x"), value, only_if_falsy: false };
    make_step("start", Composite::Assign(vec![row]))
}

#[test]
fn what_steps_without_effects_keep_is_limited() {
    let total = |bytes| Limits { total_output_bytes: bytes, ..Limits::default() };
    Trial::new(repeated_message()).with_limits(total(250)).assert_failure(Status::Failed, Code::LimitOutput);
    assert_eq!(Trial::new(repeated_message()).with_limits(total(300)).run().state.status, Status::Succeeded);
    Trial::new(assigned_variable()).with_limits(total(500)).assert_failure(Status::Failed, Code::LimitOutput);
    // Wherever expressions, texts and answers reach the limit, a replay does, too.
    for bytes in (0..2_000).step_by(50) {
        Trial::new(story_step()).with_limits(total(bytes)).assert_failure(Status::Failed, Code::LimitOutput);
    }
    assert_eq!(Trial::new(story_step()).with_limits(total(1 << 20)).run().state.status, Status::Succeeded);
}

#[test]
fn every_budget_ends_the_run_with_its_code() {
    let tokens = Limits { tokens: Some(5), ..Limits::default() };
    Trial::new(ask_model()).with_limits(tokens).assert_failure(Status::BudgetExceeded, Code::BudgetTokens);
    let money = Limits { micro_usd: Some(1), ..Limits::default() };
    Trial::new(ask_model()).with_limits(money).assert_failure(Status::BudgetExceeded, Code::BudgetMoney);
    let less = Limits { tokens: Some(5), ..Limits::default() };
    Trial::new(call_step("asker", "asks")).with_limits(less).assert_failure(Status::BudgetExceeded, Code::BudgetTokens);
}

#[test]
fn a_step_has_a_time_limit() {
    let mut slow = call_step("a", "hang");
    slow.policy.timeout_ms = Some(50);
    Trial::new(slow).assert_failure(Status::Failed, Code::StepTimeout);
}

#[test]
fn a_machine_needs_an_edge_to_continue() {
    let edges = vec![Edge {
        from: 0,
        to: None,
        condition: Some(flowloom_core::expr::Expr::Constant(false.into())),
        label: None,
    }];
    let machine = Machine { nodes: vec![call_step("a", "f")], entry: 0, edges, max_visits: 3, resets: Vec::new() };
    Trial::new(make_step("walk", Composite::Machine(machine))).assert_failure(Status::Failed, Code::MachineStuck);
}

#[test]
fn a_reference_without_a_value_fails_where_the_format_says_so() {
    let rules = TextRules { missing: Missing::Error, ..RULES };
    Trial::with_effects(Plan { text: rules, ..make_plan(call_step("a", "f")) }, |_| {})
        .assert_failure(Status::Failed, Code::MissingValue);
}

#[test]
fn code_is_not_run_without_a_sandbox() {
    let python = make_step("p", Leaf::Block(python_block()));
    Trial::with_effects(make_plan(python), |effects| effects.code = Arc::new(NoCodeRunner))
        .assert_failure(Status::Failed, Code::NoSandbox);
}

/// A block with the output `{inputs, body, said, before}`.
fn python_block() -> Block {
    Block {
        id: "b".into(),
        code: BlockCode::Python { source: "code".into(), effect: EffectClass::AtLeastOnce },
        inputs: Data::Map(vec![("n".into(), Data::Constant("seven".into()))]),
        input_schema: None,
        output_schema: None,
        failure: None,
    }
}

fn parse_schema(text: &str) -> Option<Value> {
    Some(flowloom_core::json::parse_value(text).expect("valid"))
}

#[test]
fn a_block_is_held_to_its_schemas() {
    let input_schema = parse_schema(r#"{"properties": {"n": {"type": "number"}}}"#);
    let strict = Block { input_schema, ..python_block() };
    Trial::new(make_step("p", Leaf::Block(strict))).assert_failure(Status::Failed, Code::BlockInput);
    let output_schema = parse_schema(r#"{"required": ["total"]}"#);
    let wrong = Block { output_schema, ..python_block() };
    Trial::new(make_step("p", Leaf::Block(wrong))).assert_failure(Status::Failed, Code::BlockOutput);
    let failing = Block { failure: Some("said".into()), ..python_block() };
    Trial::new(make_step("p", Leaf::Block(failing))).assert_failure(Status::Failed, Code::BlockError);
}

#[test]
fn a_pipeline_fails_when_all_that_can_run_has_run() {
    let mut bad = call_step("bad", "broken");
    bad.policy.on_error = OnError::Continue;
    let node = |step, needs| DagNode { step, needs };
    let nodes = vec![node(bad, vec![]), node(call_step("good", "f"), vec![]), node(call_step("after", "f"), vec![0])];
    let trial = Trial::new(make_step("dag", Composite::Dag(Dag { nodes, fails: true, skip_reason: "{} failed" })));
    trial.assert_failure(Status::Failed, Code::NodesFailed);
    let outcome = trial.run();
    let message = outcome.state.error.as_ref().map(|error| error.message.clone()).unwrap_or_default();
    assert!(message.starts_with("1 of 3 nodes failed: bad; bad failed with FL10"), "{message}");
    let phase =
        |key: &str| outcome.state.steps().iter().find(|step| step.path.as_str().ends_with(key)).map(|s| s.phase);
    assert_eq!(phase("/good"), Some(Phase::Finished));
    assert_eq!(phase("/after"), Some(Phase::Skipped));
}

#[test]
fn an_answer_must_fit_its_question() {
    let ask = StepKind::Leaf(Leaf::Ask {
        question: Template::from_literal("Sure?"),
        schema: parse_schema(r#"{"type": "boolean"}"#),
    });
    let trial = Trial::new(make_step("ask", ask));
    let outcome = trial.run();
    let path = outcome.state.steps()[0].path.clone();
    let answer = |id: &str, value: Value| {
        let action = CommandAction::Answer { path: path.clone(), value };
        let command = RunCommand { id: id.to_owned(), sender: "me".to_owned(), action };
        trial.journal.post_command(outcome.id, command).expect("the run is there");
    };
    answer("first", "perhaps".into());
    answer("second", true.into());
    answer("third", false.into());
    let resumed = trial.engine.resume_run(outcome.id, trial.plan.clone());
    let run = trial.world.clock.block_on(resumed).expect("no deadlock").expect("resumable");
    let outcome = trial.world.clock.block_on(run.drive_to_end()).expect("no deadlock");
    assert_eq!((outcome.state.status, outcome.state.steps()[0].output.clone()), (Status::Succeeded, Some(true.into())));
    let code = |id| match trial.journal.find_command(outcome.id, id).and_then(|record| record.outcome) {
        Some(CommandOutcome::Rejected(error)) => Some(error.code),
        Some(CommandOutcome::Applied) => None,
        None => panic!("no decision about {id}"),
    };
    assert_eq!(
        (code("first"), code("second"), code("third")),
        (Some(Code::AnswerInvalid), None, Some(Code::NothingToDo))
    );
}

#[test]
fn a_required_input_is_asked_for_before_anything_is_recorded() {
    let input = Input { name: "city".into(), required: true, ..Input::default() };
    let inputs = Inputs::Named { declared: vec![input], defaults: Map::new(), accepts_others: true };
    let trial = Trial::with_effects(Plan { inputs, ..make_plan(call_step("a", "f")) }, |_| {});
    assert_eq!(trial.start_run().map(|_| ()).expect_err("refused").code(), Code::InputMissing);
}

#[test]
fn a_cancelled_run_says_so() {
    let trial = Trial::new(call_step("a", "hang"));
    let run = trial.start_run().expect("accepted");
    let cancel = RunCommand { id: "1".to_owned(), sender: "me".to_owned(), action: CommandAction::Cancel {} };
    trial.journal.post_command(run.id(), cancel).expect("accepted");
    let outcome = trial.world.clock.block_on(run.drive_to_end()).expect("no deadlock");
    let error = outcome.state.error.map(|error| error.code);
    assert_eq!((outcome.state.status, error), (Status::Cancelled, Some(Code::Cancelled)));
}

#[test]
fn a_run_that_is_cancelled_before_its_first_step_is_replayed() {
    let trial = Trial::new(sequence_step("all", vec![sequence_step("nothing", Vec::new()), call_step("a", "f")]));
    let run = trial.start_run().expect("accepted");
    let cancel = RunCommand { id: "1".to_owned(), sender: "me".to_owned(), action: CommandAction::Cancel {} };
    trial.journal.post_command(run.id(), cancel).expect("accepted");
    let outcome = trial.world.clock.block_on(run.drive_to_end()).expect("no deadlock");
    assert!(outcome.records.iter().all(|record| record.path.as_str() == "/"), "{:?}", outcome.records);
    let replay = trial.engine.replay_run(outcome.records, trial.plan.clone());
    let replayed = trial.world.clock.block_on(replay).expect("no deadlock").expect("no divergence");
    assert_eq!(replayed.state.status, Status::Cancelled);
}

#[test]
fn a_journal_that_fails_stops_the_run() {
    let trial = Trial::new(call_step("a", "f"));
    trial.journal.crash_after(1);
    assert_eq!(trial.run().broken.map(|error| error.code()), Some(Code::StoreFailed));
}

/// Replays the record of one plan with another plan, or a changed record.
fn replay_code(trial: &Trial, records: Vec<Arc<Record>>, plan: Plan) -> Code {
    let replay = trial.engine.replay_run(records, Arc::new(plan));
    trial.world.clock.block_on(replay).expect("no deadlock").expect_err("it differs").code()
}

#[test]
fn a_record_is_followed_only_by_what_made_it() {
    let trial = Trial::new(sequence_step("s", vec![call_step("a", "f")]));
    let records = trial.run().records;
    let other = make_plan(sequence_step("s", vec![call_step("a", "g")]));
    assert_eq!(replay_code(&trial, records.clone(), other), Code::ReplayDivergence);
    let shorter = make_plan(sequence_step("s", Vec::new()));
    assert_eq!(replay_code(&trial, records.clone(), shorter), Code::ReplayDivergence);
    let mut newer = records;
    let Event::RunCreated(created) = &newer[0].event else { panic!("the first event") };
    let mut created = created.clone();
    created.engine_semantics += 1;
    newer[0] = Arc::new(Record { event: Event::RunCreated(created), ..(*newer[0]).clone() });
    assert_eq!(replay_code(&trial, newer, make_plan(call_step("a", "f"))), Code::EngineTooOld);
}
