//! A plan, its steps, and the composites: one recursive type, so one file.

use std::sync::Arc;

use super::agent::{Agent, CallTools, Turn};
use super::env::LoopHelper;
use super::format::Format;
use super::index_limit::IndexLimit;
use super::input::Inputs;
use super::leaf::Leaf;
use crate::chat::{Content, Role};
use crate::diagnostic::Span;
use crate::expr::{Data, Expr, Script, Template, TextRules};
use crate::limits::Limits;
use crate::path::Key;

/// A compiled definition, ready to run.
///
/// # Examples
///
/// ```
/// use flowloom_core::Plan;
/// use flowloom_core::expr::{Missing, TextRules, Wording};
/// use flowloom_core::limits::Limits;
/// use flowloom_core::path::Key;
/// use flowloom_core::plan::{Composite, Format, Inputs, Step};
/// use flowloom_core::render::TextStyle;
/// use flowloom_core::value::Map;
///
/// let plan = Plan {
///     format: Format::new("steps"),
///     id: None,
///     name: "nothing".into(),
///     description: String::new(),
///     inputs: Inputs::Named { declared: Vec::new(), defaults: Map::new(), accepts_others: true },
///     text: TextRules {
///         missing: Missing::Error,
///         null_is_missing: false,
///         style: TextStyle::Json,
///         keeps_type: true,
///         wording: Wording::PLAIN,
///     },
///     limits: Limits::unlimited(),
///     functions: Vec::new(),
///     thread: None,
///     root: Step::new(Key::numbered_key("sequence", 1), Composite::Sequence(Vec::new())),
/// };
/// assert_eq!(plan.root.key.as_str(), "sequence~1");
/// ```
#[derive(Clone, Debug)]
pub struct Plan {
    /// The format of the definition.
    pub format: Format,
    /// The id that the definition declares.
    pub id: Option<String>,
    /// Its name.
    pub name: String,
    /// The purpose of the workflow.
    pub description: String,
    /// The declared inputs.
    pub inputs: Inputs,
    /// The rules for putting values into text.
    pub text: TextRules,
    /// Limits that the definition sets; they apply where they are stricter than the configured ones.
    pub limits: Limits,
    /// Functions called by name, for checks before the run, each with the place of its first call.
    pub functions: Vec<(Arc<str>, Span)>,
    /// The name of the conversation that the run continues. It starts with the input `messages`, a list of
    /// `{role, content}`, or `message`, a string.
    pub thread: Option<Arc<str>>,
    /// The root step.
    pub root: Step,
}

/// One step.
#[derive(Clone, Debug)]
pub struct Step {
    /// The step's segment of the path.
    pub key: Key,
    /// The name that people see.
    pub title: String,
    /// The place in the source.
    pub span: Span,
    /// The step runs only if this is true; otherwise it is skipped.
    pub condition: Option<Expr>,
    /// Timeout and error handling.
    pub policy: Policy,
    /// The variables that receive the output.
    pub writes: Vec<Write>,
    /// The capability that the run's agent must hold for this step.
    pub capability: Option<Arc<str>>,
    /// Scripts to evaluate before the step's condition and request.
    pub scripts: Vec<Arc<Script>>,
    /// The work of the step.
    pub kind: StepKind,
}

impl Step {
    /// A step with no condition, policy or writes.
    pub fn new(key: Key, kind: impl Into<StepKind>) -> Step {
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
        self.kind.child_steps().into_iter().for_each(|child| child.visit(visit));
    }
}

/// How a step handles timeouts and failures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// Time limit of one attempt, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Whether and how failed attempts are retried.
    pub retry: Option<RetryRule>,
    /// Whether a failure ends the run.
    pub on_error: OnError,
    /// Text in front of the message of every error of this step.
    pub error_prefix: Option<&'static str>,
}

/// How failed attempts are retried.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryRule {
    /// Retries after the first attempt.
    pub max: u32,
    /// Delay before the first retry, in milliseconds. It doubles with each retry; jitter subtracts up to half of it.
    pub base_ms: u64,
    /// Longest delay, in milliseconds.
    pub cap_ms: u64,
}

/// The effect of a step's failure on the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Ends it.
    #[default]
    Fail,
    /// The run continues; the step has no output and its writes do not happen.
    Continue,
}

/// A variable that receives a step's output.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// Candidate names: the variable is the first one that is not empty. If all are empty, nothing is written.
    pub names: Vec<Template>,
    /// How the output is combined with the present value.
    pub merge: Merge,
}

impl Write {
    /// A write that replaces the variable `name`.
    pub fn to_variable(name: &str) -> Write {
        Write { names: vec![Template::from_literal(name)], merge: Merge::Replace }
    }
}

/// How an output is combined with the value of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// The output replaces the value.
    Replace,
    /// The output is appended to a list.
    Append,
}

/// The work of a step.
#[derive(Clone, Debug)]
pub enum StepKind {
    /// Performs one effect.
    Leaf(Leaf),
    /// Schedules steps or effects, or changes only variables and conversations.
    Composite(Composite),
}

/// Steps that schedule others, and steps without an effect of their own.
#[derive(Clone, Debug)]
pub enum Composite {
    /// Steps run one after another; the output is that of the last step.
    Sequence(Vec<Step>),
    /// Steps run at the same time. Each sees the variables as they were at the start; their writes happen in list order
    /// after all have finished. The output is the list of their outputs (null for skipped and failed steps).
    Parallel(Vec<Step>),
    /// Each node runs once, as soon as its dependencies have finished. The output is an object by node key.
    Dag(Dag),
    /// One token moves along edges; cycles are allowed. The output is that of the last node.
    Machine(Machine),
    /// A body that is repeated.
    Loop(Loop),
    /// The first arm whose condition is true.
    Branch {
        /// Conditions and steps, tried in order.
        arms: Vec<(Expr, Step)>,
        /// Runs if no condition is true.
        otherwise: Option<Box<Step>>,
    },
    /// Runs its step, then ends the run with that output.
    Return(Box<Step>),
    /// The plan of another definition, with variables of its own. The output is its result.
    Subflow(Subflow),
    /// Steps with variables of their own.
    Scoped(ScopedSteps),
    /// A model with tools: calls the model, runs the tools that it requests, and calls it again.
    Agent(Agent),
    /// A single answer of a model with tools.
    Turn(Turn),
    /// Runs the tools that the last answer requests.
    Tools(CallTools),
    /// Appends a message to a conversation; no effect.
    AppendMessage(AppendMessage),
    /// Sets variables; no effect.
    Assign(Vec<Assignment>),
}

impl From<Leaf> for StepKind {
    fn from(leaf: Leaf) -> StepKind {
        StepKind::Leaf(leaf)
    }
}

impl From<Composite> for StepKind {
    fn from(composite: Composite) -> StepKind {
        StepKind::Composite(composite)
    }
}

impl StepKind {
    /// The child steps.
    pub fn child_steps(&self) -> Vec<&Step> {
        match self {
            StepKind::Leaf(_) => Vec::new(),
            StepKind::Composite(composite) => composite.children(),
        }
    }

    /// Whether the step is a single effect or a failure. All other kinds schedule steps or change only variables.
    pub fn is_leaf(&self) -> bool {
        matches!(self, StepKind::Leaf(_))
    }

    /// Whether the step itself, without its children, changes nothing outside its run, as far as its definition shows.
    pub fn is_read_only(&self) -> bool {
        match self {
            StepKind::Leaf(leaf) => leaf.is_read_only(),
            StepKind::Composite(composite) => composite.is_read_only(),
        }
    }

    /// Whether the step itself, without its children, reaches only models, people and the store.
    pub fn is_closed_world(&self) -> bool {
        match self {
            StepKind::Leaf(leaf) => leaf.is_closed_world(),
            StepKind::Composite(composite) => composite.is_read_only(),
        }
    }

    /// The name in keys, events and reports.
    pub fn name(&self) -> &'static str {
        match self {
            StepKind::Leaf(leaf) => leaf.name(),
            StepKind::Composite(composite) => composite.name(),
        }
    }
}

impl Composite {
    /// The child steps.
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
            | Composite::AppendMessage(_)
            | Composite::Assign(_) => Vec::new(),
        }
    }

    /// See [`StepKind::is_read_only`]. A call of a tool may change anything.
    fn is_read_only(&self) -> bool {
        match self {
            Composite::Tools(_) => false,
            Composite::Agent(agent) => agent.tools.is_empty(),
            Composite::Sequence(_)
            | Composite::Parallel(_)
            | Composite::Dag(_)
            | Composite::Machine(_)
            | Composite::Loop(_)
            | Composite::Branch { .. }
            | Composite::Return(_)
            | Composite::Subflow(_)
            | Composite::Scoped(_)
            | Composite::Turn(_)
            | Composite::AppendMessage(_)
            | Composite::Assign(_) => true,
        }
    }

    /// The name in keys, events and reports.
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
            Composite::AppendMessage(_) => "say",
            Composite::Assign(_) => "assign",
        }
    }
}

/// Nodes with dependencies between them.
#[derive(Clone, Debug)]
pub struct Dag {
    /// The nodes.
    pub nodes: Vec<DagNode>,
    /// Whether the step fails if a node failed, once every node that can run has run.
    pub fails: bool,
    /// The reason that is recorded for a node whose needs failed; `{}` in it is replaced by their keys.
    pub skip_reason: &'static str,
}

/// A node of a [`Dag`].
#[derive(Clone, Debug)]
pub struct DagNode {
    /// The step that the node runs.
    pub step: Step,
    /// Indexes of the nodes that must finish first. A node with a failed dependency is skipped.
    pub needs: Vec<usize>,
}

/// Nodes and the edges between them.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The nodes; edges refer to them by index.
    pub nodes: Vec<Step>,
    /// The node where the token starts.
    pub entry: usize,
    /// Edges in order of preference: the token takes the first edge from the current node whose condition is true.
    pub edges: Vec<Edge>,
    /// Maximum number of node visits; reaching it is an error.
    pub max_visits: u64,
    /// Nodes that reset the visit count when they finish, because a person has replied.
    pub resets: Vec<usize>,
}

/// An edge of a [`Machine`].
#[derive(Clone, Debug)]
pub struct Edge {
    /// The node it leaves.
    pub from: usize,
    /// The node it enters; `None` ends the machine.
    pub to: Option<usize>,
    /// Whether the edge may be taken, evaluated with the output of the node. `None` is always true.
    pub condition: Option<Expr>,
    /// The label of the condition, for people. Empty: the edge needs none. `None`: the definition does not
    /// have this edge; it only completes the machine.
    pub label: Option<Arc<str>>,
}

/// A loop.
#[derive(Clone, Debug)]
pub struct Loop {
    /// The repeated step.
    pub body: Box<Step>,
    /// Ends the loop when true; evaluated with the last output.
    pub until: Option<Expr>,
    /// Whether `until` is tested before an iteration (zero iterations are possible) or after it.
    pub test: LoopTest,
    /// Maximum number of iterations.
    pub max: u64,
    /// The comparisons of the number of the iteration in `until`, each of which ends the loop.
    pub index_limits: Vec<IndexLimit>,
    /// Whether reaching `max` is an error.
    pub exhausted: Exhausted,
    /// Name of the variable that holds the iteration number in the body, from 0.
    pub counter: Option<Arc<str>>,
    /// The helper object that `until` and the body see.
    pub helper: Option<LoopHelper>,
    /// Scripts in `until`.
    pub scripts: Vec<Arc<Script>>,
    /// The output of the loop.
    pub output: LoopOutput,
}

impl Loop {
    /// The number of iterations that the loop does not exceed: its maximum, or fewer if its condition implies it.
    /// `read_number` returns the number that a variable is known to have.
    pub fn most_iterations(&self, read_number: impl Fn(&str) -> Option<i64>) -> u64 {
        let last = self.index_limits.iter().filter_map(|limit| limit.find_last_index(&read_number));
        last.fold(self.max, u64::min)
    }
}

/// Steps with variables of their own.
#[derive(Clone, Debug)]
pub struct ScopedSteps {
    /// The steps, run one after another.
    pub body: Vec<Step>,
    /// The initial variables, evaluated in the outer scope.
    pub provide: Vec<(Arc<str>, Expr)>,
    /// Names of the outer scope that the steps see: helpers.
    pub sees: Vec<Arc<str>>,
    /// Variables that make up the output, an object; variables that are not set are left out.
    pub gives: Vec<Arc<str>>,
    /// The helper whose `self` and `last` reflect the progress of the steps.
    pub helper: Option<LoopHelper>,
}

/// Appends a message to a conversation and to the transcript of the run.
#[derive(Clone, Debug)]
pub struct AppendMessage {
    /// The name of the conversation.
    pub thread: Option<Arc<str>>,
    /// The speaker.
    pub role: Role,
    /// The content of the message.
    pub content: Content,
    /// Whether the message is part of the transcript.
    pub in_transcript: bool,
}

/// When the end condition of a loop is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopTest {
    /// Before each iteration.
    Before,
    /// After each iteration.
    After,
}

/// The meaning of reaching the iteration limit of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    /// The loop succeeds.
    Succeed,
    /// The loop fails.
    Fail,
}

/// The output of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopOutput {
    /// The output of the last iteration.
    Last,
    /// The list of the outputs of all iterations that have one.
    All,
}

/// Another definition inside a plan.
#[derive(Clone, Debug)]
pub struct Subflow {
    /// Its plan.
    pub plan: Arc<Plan>,
    /// The inputs.
    pub inputs: Data,
}

/// A variable assignment.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// The variable.
    pub name: Template,
    /// The value.
    pub value: Data,
    /// Whether the variable is set only if it is missing or falsy.
    pub only_if_falsy: bool,
}
