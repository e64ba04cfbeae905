//! A plan, its steps, and what the composites hold: one recursive type, so one file.

use std::sync::Arc;

use super::agent::{Agent, Tools, Turn};
use super::env::Helper;
use super::format::Format;
use super::http::HttpSpec;
use super::input::Inputs;
use super::leaf::{Block, Call, Generate, MemoryStep, Scrape};
use crate::chat::{Content, Role};
use crate::code::Code;
use crate::diagnostic::Span;
use crate::expr::{Data, Expr, Script, Template, TextRules};
use crate::limits::Limits;
use crate::path::Key;
use crate::value::Value;

/// A definition, ready to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where it came from.
    pub format: Format,
    /// The id that the definition gives itself.
    pub id: Option<String>,
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What it can be given.
    pub inputs: Inputs,
    /// How values become text.
    pub text: TextRules,
    /// Bounds that the definition itself sets below the configured ones.
    pub limits: Limits,
    /// Functions that it calls by name, for checks before the run; each with the place of its first call.
    pub functions: Vec<(Arc<str>, Span)>,
    /// The conversation that starts with the input `messages`, a list of `{role, content}`, or `message`, a text.
    pub thread: Option<Arc<str>>,
    /// Its steps.
    pub root: Step,
}

/// One step.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its segment of the path.
    pub key: Key,
    /// What people call it.
    pub title: String,
    /// Where it stands in the source.
    pub span: Span,
    /// Runs only if this holds; otherwise it is skipped.
    pub condition: Option<Expr>,
    /// What happens on time-outs and errors.
    pub policy: Policy,
    /// Where its output goes.
    pub writes: Vec<Write>,
    /// What the agent on whose behalf the run goes must be granted for this step.
    pub capability: Option<Arc<str>>,
    /// Scripts that are evaluated before its condition and its request.
    pub scripts: Vec<Arc<Script>>,
    /// What it does.
    pub kind: Kind,
}

impl Step {
    /// A step with no condition, policy or writes.
    pub fn new(key: Key, kind: impl Into<Kind>) -> Step {
        let title = key.as_str().to_owned();
        Step {
            key,
            title,
            span: Span::default(),
            condition: None,
            policy: Policy::default(),
            writes: Vec::new(),
            capability: None,
            scripts: Vec::new(),
            kind: kind.into(),
        }
    }

    /// Calls `visit` with this step and every step below it.
    pub fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a Step)) {
        visit(self);
        self.kind.children().into_iter().for_each(|child| child.visit(visit));
    }
}

/// What a step does with trouble.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// Bound on one attempt, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Whether and how to try again.
    pub retry: Option<RetryRule>,
    /// Whether a failure ends the run.
    pub on_error: OnError,
    /// Put before the message of an error of this step.
    pub error_prefix: Option<&'static str>,
}

/// How failed attempts are repeated.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryRule {
    /// Attempts after the first.
    pub max: u32,
    /// Wait before the first of them, in milliseconds; doubled each time, with jitter of up to half of it.
    pub base_ms: u64,
    /// Longest wait.
    pub cap_ms: u64,
}

/// What a step's failure does to the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Ends it.
    #[default]
    Fail,
    /// The step has no output, its writes do not happen, and the run goes on.
    Continue,
}

/// A place that takes a step's output.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// The variable: the first of these names that is not empty. If all are, nothing is written.
    pub names: Vec<Template>,
    /// How the output joins what is there.
    pub merge: Merge,
}

impl Write {
    /// Replaces the variable `name`.
    pub fn to(name: &str) -> Write {
        Write { names: vec![Template::literal(name)], merge: Merge::Replace }
    }
}

/// How an output joins the value of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// Takes its place.
    Replace,
    /// Becomes the last item of a list.
    Append,
}

/// What a step does.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Performs one effect.
    Leaf(Leaf),
    /// Schedules steps or effects, or changes only variables and conversations.
    Composite(Composite),
}

/// Steps that perform one effect each; the output is what the effect gives.
#[derive(Clone, Debug)]
pub enum Leaf {
    /// Fails without an effect.
    Fail {
        /// The error's code.
        code: Code,
        /// Its message.
        message: String,
    },
    /// Asks a model.
    Generate(Generate),
    /// Sends an HTTP request; the output is the reply's JSON or text.
    Http(HttpSpec),
    /// Reads a web page.
    Scrape(Scrape),
    /// Calls a function.
    Call(Call),
    /// Runs a block.
    Block(Block),
    /// Reads or writes the owner's memory.
    Memory(MemoryStep),
    /// Asks a person and waits.
    Ask {
        /// The question.
        question: Template,
        /// JSON Schema of the answer.
        schema: Option<Value>,
    },
    /// Waits.
    Wait {
        /// How long, in milliseconds.
        duration_ms: u64,
    },
}

/// Steps that schedule others, and steps without an effect of their own.
#[derive(Clone, Debug)]
pub enum Composite {
    /// Its steps one after another; the output is the last one's.
    Sequence(Vec<Step>),
    /// Its steps at the same time, each seeing the variables as they were before; their writes happen in the order of
    /// the list, after all have finished. The output is the list of outputs (null for skipped and failed ones).
    Parallel(Vec<Step>),
    /// Each node once, as soon as what it needs is finished. The output is an object by node key.
    Dag(Dag),
    /// One token walks along edges; cycles are allowed. The output is the last node's.
    Machine(Machine),
    /// A body repeated.
    Loop(Loop),
    /// The first arm whose condition holds.
    Branch {
        /// Conditions with steps, tried in order.
        arms: Vec<(Expr, Step)>,
        /// Runs if none holds.
        otherwise: Option<Box<Step>>,
    },
    /// Its step, and then the run ends with that output.
    Return(Box<Step>),
    /// Another definition's plan, with variables of its own. The output is its result.
    Subflow(Subflow),
    /// Steps with variables of their own.
    Scoped(Scoped),
    /// A model with tools: asks, calls what the model wants, and asks again.
    Agent(Agent),
    /// One answer of a model with tools.
    Turn(Turn),
    /// Calls the tools that the last answer wants.
    Tools(Tools),
    /// Adds to a conversation; no effect.
    Say(Say),
    /// Sets variables; no effect.
    Assign(Vec<Assignment>),
}

impl From<Leaf> for Kind {
    fn from(leaf: Leaf) -> Kind {
        Kind::Leaf(leaf)
    }
}

impl From<Composite> for Kind {
    fn from(composite: Composite) -> Kind {
        Kind::Composite(composite)
    }
}

impl Kind {
    /// The steps directly below.
    pub fn children(&self) -> Vec<&Step> {
        match self {
            Kind::Leaf(_) => Vec::new(),
            Kind::Composite(composite) => composite.children(),
        }
    }

    /// Whether it is one effect (or a failure): everything else schedules steps, or changes only variables.
    pub fn is_leaf(&self) -> bool {
        matches!(self, Kind::Leaf(_))
    }

    /// Its name in keys, events and reports.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Leaf(leaf) => leaf.name(),
            Kind::Composite(composite) => composite.name(),
        }
    }
}

impl Leaf {
    /// Its name in keys, events and reports.
    pub fn name(&self) -> &'static str {
        match self {
            Leaf::Fail { .. } => "fail",
            Leaf::Generate(_) => "generate",
            Leaf::Http(_) => "http",
            Leaf::Scrape(_) => "scrape",
            Leaf::Call(_) => "call",
            Leaf::Block(_) => "block",
            Leaf::Memory(_) => "memory",
            Leaf::Ask { .. } => "ask",
            Leaf::Wait { .. } => "wait",
        }
    }
}

impl Composite {
    /// The steps directly below.
    pub fn children(&self) -> Vec<&Step> {
        match self {
            Composite::Sequence(steps) | Composite::Parallel(steps) => steps.iter().collect(),
            Composite::Scoped(scoped) => scoped.body.iter().collect(),
            Composite::Dag(dag) => dag.nodes.iter().map(|node| &node.step).collect(),
            Composite::Machine(machine) => machine.nodes.iter().collect(),
            Composite::Loop(looped) => vec![&looped.body],
            Composite::Branch { arms, otherwise } => {
                arms.iter().map(|(_, step)| step).chain(otherwise.as_deref()).collect()
            }
            Composite::Return(step) => vec![step],
            Composite::Subflow(subflow) => vec![&subflow.plan.root],
            Composite::Agent(_)
            | Composite::Turn(_)
            | Composite::Tools(_)
            | Composite::Say(_)
            | Composite::Assign(_) => Vec::new(),
        }
    }

    /// Its name in keys, events and reports.
    pub fn name(&self) -> &'static str {
        match self {
            Composite::Sequence(_) => "sequence",
            Composite::Parallel(_) => "parallel",
            Composite::Dag(_) => "dag",
            Composite::Machine(_) => "machine",
            Composite::Loop(_) => "loop",
            Composite::Branch { .. } => "branch",
            Composite::Return(_) => "return",
            Composite::Subflow(_) => "subflow",
            Composite::Scoped(_) => "scope",
            Composite::Agent(_) => "agent",
            Composite::Turn(_) => "turn",
            Composite::Tools(_) => "tools",
            Composite::Say(_) => "say",
            Composite::Assign(_) => "assign",
        }
    }
}

/// Nodes that wait for each other.
#[derive(Clone, Debug)]
pub struct Dag {
    /// The nodes.
    pub nodes: Vec<DagNode>,
    /// Whether the step fails, once everything that can run has run, if a node did.
    pub fails: bool,
    /// The reason that is recorded for a node whose needs failed; `{}` in it stands for their keys.
    pub skip_reason: &'static str,
}

/// A node of a [`Dag`].
#[derive(Clone, Debug)]
pub struct DagNode {
    /// What it does.
    pub step: Step,
    /// Indexes of the nodes that must be finished first. A node whose needs failed is skipped.
    pub needs: Vec<usize>,
}

/// Nodes and the edges between them.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The nodes; edges name them by index.
    pub nodes: Vec<Step>,
    /// Where the token starts.
    pub entry: usize,
    /// Edges in order of preference: the first one from the current node whose condition holds is taken.
    pub edges: Vec<Edge>,
    /// Nodes run at most; reaching it is an error.
    pub max_visits: u64,
    /// Nodes whose end starts the count of visits again (a person has spoken).
    pub resets: Vec<usize>,
}

/// An edge of a [`Machine`].
#[derive(Clone, Debug)]
pub struct Edge {
    /// The node it leaves.
    pub from: usize,
    /// The node it enters; `None` is the end.
    pub to: Option<usize>,
    /// Whether it may be taken; evaluated with the node's output. `None` always holds.
    pub condition: Option<Expr>,
}

/// A loop.
#[derive(Clone, Debug)]
pub struct Loop {
    /// What is repeated.
    pub body: Box<Step>,
    /// Ends the loop; evaluated with the last output.
    pub until: Option<Expr>,
    /// Whether `until` is looked at before an iteration (then zero are possible) or after it.
    pub test: LoopTest,
    /// Iterations at most.
    pub max: u64,
    /// Whether reaching `max` is an error.
    pub exhausted: Exhausted,
    /// Name under which the body sees the number of the iteration, from 0.
    pub counter: Option<Arc<str>>,
    /// What `until` and the body see of the iterations.
    pub helper: Option<Helper>,
    /// Scripts in `until`.
    pub scripts: Vec<Arc<Script>>,
    /// What the loop's output is.
    pub output: LoopOutput,
}

/// Steps with variables of their own.
#[derive(Clone, Debug)]
pub struct Scoped {
    /// The steps, one after another.
    pub body: Vec<Step>,
    /// The variables they start with, evaluated outside.
    pub provide: Vec<(Arc<str>, Expr)>,
    /// Names of the place outside that they see: helpers.
    pub sees: Vec<Arc<str>>,
    /// Variables that make up the output, an object; those that are not set are left out.
    pub gives: Vec<Arc<str>>,
    /// The helper whose `self` and `last` follow the steps.
    pub helper: Option<Helper>,
}

/// Adds to a conversation and to the text that the run writes.
#[derive(Clone, Debug)]
pub struct Say {
    /// The conversation.
    pub thread: Option<Arc<str>>,
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: Content,
    /// Whether it is part of the run's text.
    pub written: bool,
}

/// When a loop's end is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopTest {
    /// Before each iteration.
    Before,
    /// After each iteration.
    After,
}

/// What reaching a loop's bound means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    /// The loop is done.
    Succeed,
    /// The loop failed.
    Fail,
}

/// What a loop gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopOutput {
    /// The last iteration's output.
    Last,
    /// The list of all outputs.
    All,
}

/// Another definition inside this one.
#[derive(Clone, Debug)]
pub struct Subflow {
    /// Its plan.
    pub plan: Arc<Plan>,
    /// What it is given.
    pub inputs: Data,
}

/// A variable to set.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// The variable.
    pub name: Template,
    /// Its value.
    pub value: Data,
    /// Whether only a missing or falsy variable is set.
    pub only_if_falsy: bool,
}
