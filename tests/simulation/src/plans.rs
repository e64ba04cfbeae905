//! Small plans with random steps: effects of both classes, retries, fan-out, loops, questions, pauses, memory writes, and
//! child runs.

use std::sync::Arc;

use flowloom_core::expr::{Data, Missing, Template, TextRules, Wording};
use flowloom_core::limits::Limits;
use flowloom_core::path::{Key, Path};
use flowloom_core::plan::*;
use flowloom_core::render::TextStyle;
use flowloom_core::value::{Map, Value};

use crate::choices::Choices;
use crate::world::PlannedRun;

const RULES: TextRules = TextRules {
    missing: Missing::Keep,
    null_is_missing: false,
    style: TextStyle::Json,
    keeps_type: false,
    wording: Wording::PLAIN,
};

/// Composites in composites.
const MAX_DEPTH: u32 = 2;

/// Longest time limit of a question, in milliseconds.
const MAX_QUESTION_MS: u64 = 5_000;

/// Longest time limit of a step that starts a child run, in milliseconds.
const MAX_CALL_MS: u64 = 3_000;

/// The function that runs the child plan with a number.
const CHILD_FUNCTION: &str = "child-";

/// The number of the child plan that a function runs; `None` if it runs none.
pub(crate) fn find_child_number(function: &str) -> Option<usize> {
    function.strip_prefix(CHILD_FUNCTION)?.parse().ok()
}

/// A random plan of at most `size` steps, with child runs that are nested at most `call_depth` levels deep.
pub(crate) fn choose_plan(choices: &Choices, size: u64, call_depth: u64) -> PlannedRun {
    choose_plan_within(choices, &mut (1 + choices.below(size)), call_depth)
}

/// A random plan of at most `left` steps, which are subtracted from `left`.
fn choose_plan_within(choices: &Choices, left: &mut u64, call_depth: u64) -> PlannedRun {
    let mut builder = PlanBuilder { choices, left: *left, call_depth, questions: Vec::new(), children: Vec::new() };
    let mut steps = Vec::new();
    while builder.left > 0 {
        steps.push(builder.choose_step("", steps.len(), 0));
    }
    *left = builder.left;
    let root = make_step("root", Composite::Sequence(steps));
    let plan = Plan {
        format: Format::new("steps"),
        id: None,
        name: "simulated".into(),
        description: String::new(),
        inputs: Inputs::Named { declared: Vec::new(), defaults: Map::new(), accepts_others: true },
        text: RULES,
        limits: Limits::default(),
        functions: Vec::new(),
        thread: None,
        root,
    };
    PlannedRun { plan: Arc::new(plan), questions: builder.questions, children: builder.children }
}

struct PlanBuilder<'a> {
    choices: &'a Choices,
    /// Steps that may still be added.
    left: u64,
    /// How deep child runs may be nested.
    call_depth: u64,
    questions: Vec<Path>,
    children: Vec<Arc<PlannedRun>>,
}

impl PlanBuilder<'_> {
    fn choose_step(&mut self, above: &str, number: usize, depth: u32) -> Step {
        self.left = self.left.saturating_sub(1);
        let key = format!("s{number}");
        let path = format!("{above}/{key}");
        let can_nest = depth < MAX_DEPTH && self.left > 0;
        let can_call = self.call_depth > 0 && self.left > 0;
        let kinds = 12 + if can_nest { 3 } else { 0 } + if can_call { 4 } else { 0 };
        match self.choices.below(kinds) {
            0..=1 => call_step(&key, "once"),
            2..=3 => call_step(&key, "many"),
            4 => retried_step(call_step(&key, "once-flaky")),
            5 => retried_step(call_step(&key, "many-flaky")),
            6 => self.choose_failure(&key, depth),
            7..=8 => self.choose_question(&key, &path),
            9 => make_step(&key, Leaf::Wait { duration_ms: self.choices.below(400) }),
            10 => self.choose_memory_write(&key),
            11 => python_step(&key),
            12..=13 if can_nest => make_step(&key, Composite::Parallel(self.choose_children(&path, depth))),
            14 if can_nest => self.choose_loop(&key, &path, depth),
            _ => self.choose_call(&key),
        }
    }

    fn choose_question(&mut self, key: &str, path: &str) -> Step {
        self.questions.extend(Path::parse(path));
        let mut step = make_step(key, Leaf::Ask { question: Template::from_literal("?"), schema: None });
        if self.choices.one_in(3) {
            step.policy.timeout_ms = Some(1 + self.choices.below(MAX_QUESTION_MS));
            step.policy.on_error = OnError::Continue;
        }
        step
    }

    fn choose_children(&mut self, path: &str, depth: u32) -> Vec<Step> {
        let count = 1 + self.choices.index(3);
        (0..count).map(|number| self.choose_step(path, number, depth + 1)).collect()
    }

    fn choose_loop(&mut self, key: &str, path: &str, depth: u32) -> Step {
        let body = self.choose_step(path, 0, depth + 1);
        let looped = Loop {
            body: Box::new(body),
            until: None,
            test: LoopTest::After,
            max: 2,
            index_limits: Vec::new(),
            exhausted: Exhausted::Succeed,
            counter: None,
            helper: None,
            scripts: Vec::new(),
            output: LoopOutput::All,
        };
        make_step(key, Composite::Loop(looped))
    }

    /// A step that starts a child run, which may fail, take too long, and be started again.
    fn choose_call(&mut self, key: &str) -> Step {
        let mut size = 1 + self.choices.below(self.left.min(3));
        self.left -= size;
        let child = choose_plan_within(self.choices, &mut size, self.call_depth - 1);
        self.left += size;
        let mut step = call_step(key, &format!("{CHILD_FUNCTION}{}", self.children.len()));
        self.children.push(Arc::new(child));
        if self.choices.one_in(4) {
            step.policy.timeout_ms = Some(1 + self.choices.below(MAX_CALL_MS));
            step = retried_step(step);
        }
        if self.choices.one_in(2) {
            step.policy.on_error = OnError::Continue;
        }
        step
    }

    fn choose_failure(&mut self, key: &str, depth: u32) -> Step {
        let mut step = call_step(key, "many-broken");
        // A failure that ends the run is interesting only sometimes.
        if depth > 0 || !self.choices.one_in(4) {
            step.policy.on_error = OnError::Continue;
        }
        step
    }

    fn choose_memory_write(&mut self, key: &str) -> Step {
        let (name, value) = (self.choices.below(2), self.choices.below(100));
        let prompt = Template::from_literal(&format!("{{\"key\":\"k{name}\",\"value\":{value}}}"));
        let step = MemoryStep { operation: MemoryOperation::Set, prompt, has_default_prompt: false };
        make_step(key, Leaf::Memory(step))
    }
}

fn make_step(key: &str, kind: impl Into<StepKind>) -> Step {
    Step::new(Key::from_name(key).unwrap_or_else(|| unreachable!("keys of the simulation are clean")), kind)
}

fn call_step(key: &str, function: &str) -> Step {
    let prompt = Template::from_literal("go");
    make_step(key, Leaf::Call(FunctionCall::with_prompt(function, prompt)))
}

fn retried_step(mut step: Step) -> Step {
    step.policy.retry = Some(RetryRule { max: 3, base_ms: 50, cap_ms: 200 });
    step
}

fn python_step(key: &str) -> Step {
    let block = Block {
        id: "block".into(),
        code: BlockCode::Python { source: "code".into(), effect: EffectClass::AtLeastOnce },
        inputs: Data::Constant(Value::Null),
        input_schema: None,
        output_schema: None,
        failure: None,
    };
    make_step(key, Leaf::Block(block))
}
