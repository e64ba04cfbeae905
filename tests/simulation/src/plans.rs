//! Small plans with random steps: effects of both classes, retries, fan-out, loops, questions, pauses, memory writes.

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

/// A random plan of at most `size` steps.
pub(crate) fn choose_plan(choices: &Choices, size: u64) -> PlannedRun {
    let mut builder = PlanBuilder { choices, left: 1 + choices.below(size), questions: Vec::new() };
    let mut steps = Vec::new();
    while builder.left > 0 {
        steps.push(builder.choose_step("", steps.len(), 0));
    }
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
    PlannedRun { plan: Arc::new(plan), questions: builder.questions }
}

struct PlanBuilder<'a> {
    choices: &'a Choices,
    /// Steps that may still be added.
    left: u64,
    questions: Vec<Path>,
}

impl PlanBuilder<'_> {
    fn choose_step(&mut self, above: &str, number: usize, depth: u32) -> Step {
        self.left = self.left.saturating_sub(1);
        let key = format!("s{number}");
        let path = format!("{above}/{key}");
        let kinds = if depth < MAX_DEPTH && self.left > 0 { 15 } else { 12 };
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
            12..=13 => make_step(&key, Composite::Parallel(self.choose_children(&path, depth))),
            _ => self.choose_loop(&key, &path, depth),
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
            last_index: None,
            exhausted: Exhausted::Succeed,
            counter: None,
            helper: None,
            scripts: Vec::new(),
            output: LoopOutput::All,
        };
        make_step(key, Composite::Loop(looped))
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
