//! The plan: the compiled form of every definition, and all that the interpreter knows of it.
//!
//! A plan is a tree of steps. Composites schedule their children; leaves perform effects. The peculiarities of a format
//! are data here (text rules, error policies, write targets): the interpreter never asks which format a plan comes
//! from. The data of each kind of step is in `parts`.

mod input;
mod parts;

use std::sync::Arc;

use crate::code::Code;
use crate::diagnostic::Span;
use crate::expr::{Expr, Script};
use crate::http::HttpSpec;
use crate::limits::Limits;
use crate::path::Key;
use crate::request::{Message, Role};
use crate::template::{Template, TextRules};
use crate::thread::answered;
use crate::value::Value;
use crate::vars::{Env, Vars};

pub use input::*;
pub use parts::*;

/// The formats that a plan can come from. Only `formats` and reports read this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Markdown with actions (lebrunel/agentflow).
    Markdown,
    /// JSON flows (AnythingLLM agent flows).
    Flow,
    /// Block pipelines (AgentFlow).
    Pipeline,
    /// Agent graphs (2nChat).
    Graph,
    /// Step lists (AgentOS).
    Steps,
    /// Agents around flows (AnythingLLM): a model whose tools are workflows.
    Agent,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 6] =
        [Format::Markdown, Format::Flow, Format::Pipeline, Format::Graph, Format::Steps, Format::Agent];

    /// The name of the format.
    pub fn name(self) -> &'static str {
        match self {
            Format::Markdown => "markdown",
            Format::Flow => "flow",
            Format::Pipeline => "pipeline",
            Format::Graph => "graph",
            Format::Steps => "steps",
            Format::Agent => "agent",
        }
    }

    /// The format with this name.
    pub fn parse(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// A compiled definition, ready to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The format of the definition.
    pub format: Format,
    /// The id that the definition declares.
    pub id: Option<String>,
    /// The name.
    pub name: String,
    /// What the workflow is for.
    pub description: String,
    /// The declared inputs.
    pub inputs: Inputs,
    /// The rules for putting values into text.
    pub text: TextRules,
    /// Limits that the definition sets; they apply where they are stricter than the configured ones.
    pub limits: Limits,
    /// Functions called by name, for checks before the run, each with the place of its first call.
    pub functions: Vec<(Arc<str>, Span)>,
    /// The name of the conversation that the run continues. It starts with the input `messages`, a list of `{role,
    /// content}`, or `message`, a string.
    pub thread: Option<Arc<str>>,
    /// The root step.
    pub root: Step,
}

impl Plan {
    /// The environment at the start of a run: its variables, and the conversation that it continues.
    pub fn start(&self, inputs: &Value) -> Env {
        let mut env = Env::of(self.initial(inputs));
        if let Some(thread) = &self.thread {
            let said = inputs.get("messages").map(crate::render::json).unwrap_or_default();
            let said: Vec<Message> = serde_json::from_str(&said).unwrap_or_default();
            let new = inputs.get("message").and_then(Value::as_str).map(|text| Message::new(Role::User, text));
            let said = answered(said.into_iter().chain(new));
            said.into_iter().for_each(|message| env.say(thread, message));
        }
        env
    }

    /// The variables at the start of a run.
    pub fn initial(&self, inputs: &Value) -> Vars {
        let mut vars = Vars::default();
        match &self.inputs {
            Inputs::Whole(name) => vars.set(name.clone(), inputs.clone()),
            Inputs::Named { declared, defaults } => {
                let mut map = defaults.clone();
                map.extend(inputs.as_map().cloned().unwrap_or_default());
                for input in declared.iter().filter(|input| input.kind != InputKind::Any) {
                    if let Some(value) = map.get_mut(input.name.as_str()) {
                        *value = input.kind.read(value);
                    }
                }
                map.into_iter().for_each(|(name, value)| vars.set(name, value));
            }
        }
        vars
    }
}

/// A step.
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
    /// What happens on timeouts and errors.
    pub policy: Policy,
    /// The variables that receive the output.
    pub writes: Vec<Write>,
    /// The capability that the run's agent must hold for this step.
    pub capability: Option<Arc<str>>,
    /// Scripts to evaluate before the step's condition and request.
    pub scripts: Vec<Arc<Script>>,
    /// What the step does.
    pub kind: Kind,
}

impl Step {
    /// A step with no condition, policy or writes.
    pub fn new(key: Key, kind: Kind) -> Step {
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
            kind,
        }
    }

    /// Calls `visit` with this step and every step below it.
    pub fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a Step)) {
        visit(self);
        self.kind.children().into_iter().for_each(|child| child.visit(visit));
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
    /// The run ends.
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
    pub fn to(name: &str) -> Write {
        Write { names: vec![Template::literal(name)], merge: Merge::Replace }
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

/// The kind of a step, with its data.
#[derive(Clone, Debug)]
pub enum Kind {
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
    Scoped(Scoped),
    /// A model with tools: calls the model, runs the tools that it requests, and calls it again.
    Agent(Agent),
    /// A single answer of a model with tools.
    Turn(Turn),
    /// Runs the tools that the last answer requests.
    Tools(Tools),
    /// Appends a message to a conversation; no effect.
    Say(Say),
    /// Sets variables; no effect.
    Assign(Vec<Assignment>),
    /// Fails with an error.
    Fail {
        /// The code of the error.
        code: Code,
        /// The message of the error.
        message: String,
    },
    /// Calls a model.
    Generate(Generate),
    /// Sends an HTTP request; the output is the body of the reply, as JSON or text.
    Http(HttpSpec),
    /// Reads a web page.
    Scrape(Scrape),
    /// Calls a function.
    Call(Call),
    /// Runs a block.
    Block(Block),
    /// Reads or writes the user's memory.
    Memory(MemoryStep),
    /// Asks a person and waits for the answer.
    Ask {
        /// The question.
        question: Template,
        /// JSON Schema of the answer.
        schema: Option<Value>,
    },
    /// Waits for a fixed time.
    Wait {
        /// The duration, in milliseconds.
        duration_ms: u64,
    },
}

impl Kind {
    /// The child steps.
    pub fn children(&self) -> Vec<&Step> {
        match self {
            Kind::Sequence(steps) | Kind::Parallel(steps) => steps.iter().collect(),
            Kind::Scoped(scoped) => scoped.body.iter().collect(),
            Kind::Dag(dag) => dag.nodes.iter().map(|node| &node.step).collect(),
            Kind::Machine(machine) => machine.nodes.iter().collect(),
            Kind::Loop(looped) => vec![&looped.body],
            Kind::Branch { arms, otherwise } => arms.iter().map(|(_, step)| step).chain(otherwise.as_deref()).collect(),
            Kind::Return(step) => vec![step],
            Kind::Subflow(subflow) => vec![&subflow.plan.root],
            Kind::Agent(_)
            | Kind::Turn(_)
            | Kind::Tools(_)
            | Kind::Say(_)
            | Kind::Assign(_)
            | Kind::Fail { .. }
            | Kind::Generate(_)
            | Kind::Http(_)
            | Kind::Scrape(_)
            | Kind::Call(_)
            | Kind::Block(_)
            | Kind::Memory(_)
            | Kind::Ask { .. }
            | Kind::Wait { .. } => Vec::new(),
        }
    }

    /// Whether the step is a single effect or a failure. All other kinds schedule steps or change only variables.
    pub fn is_leaf(&self) -> bool {
        matches!(
            self,
            Kind::Fail { .. }
                | Kind::Generate(_)
                | Kind::Http(_)
                | Kind::Scrape(_)
                | Kind::Call(_)
                | Kind::Block(_)
                | Kind::Memory(_)
                | Kind::Ask { .. }
                | Kind::Wait { .. }
        )
    }

    /// The name in keys, events and reports.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Sequence(_) => "sequence",
            Kind::Parallel(_) => "parallel",
            Kind::Dag(_) => "dag",
            Kind::Machine(_) => "machine",
            Kind::Loop(_) => "loop",
            Kind::Branch { .. } => "branch",
            Kind::Return(_) => "return",
            Kind::Subflow(_) => "subflow",
            Kind::Scoped(_) => "scope",
            Kind::Agent(_) => "agent",
            Kind::Turn(_) => "turn",
            Kind::Tools(_) => "tools",
            Kind::Say(_) => "say",
            Kind::Assign(_) => "assign",
            Kind::Fail { .. } => "fail",
            Kind::Generate(_) => "generate",
            Kind::Http(_) => "http",
            Kind::Scrape(_) => "scrape",
            Kind::Call(_) => "call",
            Kind::Block(_) => "block",
            Kind::Memory(_) => "memory",
            Kind::Ask { .. } => "ask",
            Kind::Wait { .. } => "wait",
        }
    }
}
