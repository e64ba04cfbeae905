//! A step of a plan alone: the plan of a run in which nothing else happens.

use std::sync::Arc;

use super::env::Env;
use super::input::{Input, Inputs};
use super::leaf::Leaf;
use super::reads::{list_called_functions, list_read_names};
use super::step::{Composite, Dag, DagNode, Edge, Exhausted, Loop, LoopTest, Machine, Plan, Step, StepKind};
use crate::chat::Role;
use crate::expr::Expr;
use crate::path::Path;
use crate::value::Map;

/// The inputs with which a conversation begins.
const CONVERSATION_INPUTS: [(&str, &str); 2] = [
    ("message", "What is said to the step."),
    ("messages", "The conversation before it: a list of objects with role and content."),
];

/// Why a step cannot run alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAlone {
    /// The plan has no such step.
    #[error("the workflow has no such step")]
    Missing,
    /// It belongs to a definition that this one includes.
    #[error("the step belongs to a workflow that this one includes; open that workflow and run the step there")]
    Included,
    /// It runs the tools that a model asked for.
    #[error("the step runs the tools that the answer before it asks for; run the step that gives the answer")]
    NeedsAnswer,
    /// It only sets variables.
    #[error("the step only sets variables; set them as inputs of another step")]
    SetsVariables,
    /// It fails in any case.
    #[error("the step has nothing to perform")]
    Empty,
}

/// The plan of a run of one step. Its path stays the same. What it reads are the inputs of the plan; conditions of the step
/// and of those around it do not count, and a loop around it has one iteration. Fails if there is no such step, if an
/// included definition has it, if it needs the answer of the step before, or if it performs nothing.
pub fn isolate_step(plan: &Plan, wanted: &Path) -> Result<Plan, NotAlone> {
    let root = keep_step(&plan.root, &Path::root(), wanted)?;
    let called = list_called_functions(&root);
    let functions = plan.functions.iter().filter(|(function, _)| called.contains(function)).cloned().collect();
    let thread = plan.thread.clone().or_else(|| find_thread(&root));
    let alone = Plan { name: format!("{}, only {wanted}", plan.name), functions, thread, root, ..plan.clone() };
    Ok(Plan { inputs: list_inputs(plan, &alone), ..alone })
}

/// The conversation that the only model call of a step continues; `None` if there are several.
fn find_thread(root: &Step) -> Option<Arc<str>> {
    let mut threads = Vec::new();
    root.visit(&mut |step| {
        let generate = match &step.kind {
            StepKind::Leaf(Leaf::Generate(generate)) => generate,
            StepKind::Composite(Composite::Agent(agent)) => &agent.generate,
            StepKind::Composite(Composite::Turn(turn)) => &turn.generate,
            _ => return,
        };
        threads.push(generate.thread.clone());
    });
    match threads.as_slice() {
        [thread] => thread.clone(),
        _ => None,
    }
}

/// The names that the step reads as inputs, none of which is required.
fn list_inputs(plan: &Plan, alone: &Plan) -> Inputs {
    let (declared, defaults) = match &plan.inputs {
        Inputs::Named { declared, defaults, .. } => (declared.as_slice(), defaults.clone()),
        Inputs::Whole(_) => ([].as_slice(), Map::new()),
    };
    let input = |name: &str| {
        let known = declared.iter().find(|input| input.name == name).cloned();
        Input { required: false, ..known.unwrap_or_else(|| Input { name: name.to_owned(), ..Input::default() }) }
    };
    let mut inputs: Vec<Input> = list_read_names(&alone.root).iter().map(|name| input(name)).collect();
    if alone.thread.is_some() {
        inputs.retain(|input| CONVERSATION_INPUTS.iter().all(|(name, _)| input.name != *name));
        inputs.extend(
            CONVERSATION_INPUTS
                .map(|(name, description)| Input { description: Some(description.to_owned()), ..input(name) }),
        );
    }
    Inputs::Named { declared: inputs, defaults, accepts_others: true }
}

/// The step without everything in it that is not the wanted step.
fn keep_step(step: &Step, place: &Path, wanted: &Path) -> Result<Step, NotAlone> {
    let kind = match &step.kind {
        kind if place == wanted => {
            check_kind(kind)?;
            kind.clone()
        }
        StepKind::Leaf(_) => return Err(NotAlone::Missing),
        StepKind::Composite(composite) => keep_within(composite, place, wanted)?.into(),
    };
    Ok(Step { condition: None, kind, ..step.clone() })
}

/// Whether a step of this kind can run alone.
fn check_kind(kind: &StepKind) -> Result<(), NotAlone> {
    match kind {
        StepKind::Leaf(Leaf::Fail { .. }) => Err(NotAlone::Empty),
        StepKind::Composite(Composite::Tools(_)) => Err(NotAlone::NeedsAnswer),
        StepKind::Composite(Composite::Assign(_) | Composite::AppendMessage(_)) => Err(NotAlone::SetsVariables),
        _ => Ok(()),
    }
}

fn keep_within(composite: &Composite, place: &Path, wanted: &Path) -> Result<Composite, NotAlone> {
    let find = |steps: &[&Step]| {
        steps.iter().position(|step| wanted.is_within(&place.child_path(&step.key))).ok_or(NotAlone::Missing)
    };
    let keep = |step: &Step| keep_step(step, &place.child_path(&step.key), wanted);
    Ok(match composite {
        Composite::Sequence(steps) => Composite::Sequence(keep_in_sequence(steps, place, wanted)?),
        // The variables of the scope are inputs instead.
        Composite::Scoped(scoped) => Composite::Sequence(keep_in_sequence(&scoped.body, place, wanted)?),
        Composite::Parallel(steps) => {
            Composite::Parallel(vec![keep(&steps[find(&steps.iter().collect::<Vec<_>>())?])?])
        }
        Composite::Dag(dag) => {
            let at = find(&composite.children())?;
            let node = DagNode { step: keep(&dag.nodes[at].step)?, needs: Vec::new() };
            Composite::Dag(Dag { nodes: vec![node], ..dag.clone() })
        }
        Composite::Machine(machine) => {
            let node = keep(&machine.nodes[find(&composite.children())?])?;
            let end = Edge { from: 0, to: None, condition: None, label: None };
            Composite::Machine(Machine {
                nodes: vec![node],
                entry: 0,
                edges: vec![end],
                max_visits: machine.max_visits,
                resets: Vec::new(),
            })
        }
        Composite::Loop(looped) => Composite::Loop(Loop {
            body: Box::new(keep_step(&looped.body, place, wanted)?),
            until: None,
            test: LoopTest::After,
            max: 1,
            index_limits: Vec::new(),
            exhausted: Exhausted::Succeed,
            scripts: Vec::new(),
            ..looped.clone()
        }),
        Composite::Branch { .. } => {
            let arm = keep(composite.children()[find(&composite.children())?])?;
            Composite::Branch { arms: vec![(Expr::Constant(true.into()), arm)], otherwise: None }
        }
        Composite::Return(step) => Composite::Return(Box::new(keep_step(step, place, wanted)?)),
        Composite::Subflow(_) => return Err(NotAlone::Included),
        Composite::Agent(_)
        | Composite::Turn(_)
        | Composite::Tools(_)
        | Composite::AppendMessage(_)
        | Composite::Assign(_) => {
            return Err(NotAlone::Missing);
        }
    })
}

/// The step of a sequence with the steps that append its messages, and the one that appends its result.
fn keep_in_sequence(steps: &[Step], place: &Path, wanted: &Path) -> Result<Vec<Step>, NotAlone> {
    let is_around = |step: &Step| wanted.is_within(&place.child_path(&step.key));
    let at = steps.iter().position(is_around).ok_or(NotAlone::Missing)?;
    let appends = |step: &Step, who: Role| matches!(&step.kind, StepKind::Composite(Composite::AppendMessage(message)) if message.role == who);
    let texts = steps[..at].iter().rev().take_while(|step| appends(step, Role::User)).count();
    let mut around = steps[at - texts..at].to_vec();
    around.push(keep_step(&steps[at], &place.child_path(&steps[at].key), wanted)?);
    around.extend(steps.get(at + 1).filter(|step| appends(step, Role::Assistant)).cloned());
    Ok(around)
}

fn appends(step: &Step, who: Role) -> bool {
    matches!(&step.kind, StepKind::Composite(Composite::AppendMessage(message)) if message.role == who)
}

/// Whether a step appends messages for a model before it calls the model.
fn repeats_text(root: &Step) -> bool {
    let mut found = false;
    root.visit(&mut |step| found |= appends(step, Role::User));
    found
}

/// Whether a step has variables and conversations that the run does not have, such as those of an iteration.
pub fn has_own_scope(plan: &Plan, wanted: &Path) -> bool {
    is_in_scope(&plan.root, &Path::root(), wanted)
}

fn is_in_scope(step: &Step, place: &Path, wanted: &Path) -> bool {
    let StepKind::Composite(composite) = &step.kind else { return false };
    match composite {
        _ if place == wanted && !matches!(composite, Composite::Loop(_) | Composite::Return(_)) => false,
        Composite::Scoped(_) | Composite::Subflow(_) => true,
        Composite::Loop(looped) => is_in_scope(&looped.body, place, wanted),
        Composite::Return(inner) => is_in_scope(inner, place, wanted),
        _ => composite.children().into_iter().any(|child| {
            let inner = place.child_path(&child.key);
            wanted.is_within(&inner) && is_in_scope(child, &inner, wanted)
        }),
    }
}

/// The inputs of a step alone that replace an environment: its variables, and the conversation before the step.
pub fn inputs_from_env(plan: &Plan, env: &Env) -> Map {
    let Inputs::Named { declared, .. } = &plan.inputs else { return Map::new() };
    let mut inputs = Map::new();
    for input in declared {
        if let Some(value) = env.vars.get(&input.name) {
            inputs.insert(input.name.as_str().into(), value.clone());
        }
    }
    if let Some(thread) = &plan.thread {
        let thread = env.find_thread(thread);
        let mut messages = thread.messages();
        // The run appends the messages for the step again.
        if repeats_text(&plan.root) {
            let texts = messages.iter().rev().take_while(|message| message.role == Role::User).count();
            messages = &messages[..messages.len() - texts];
        }
        let messages = serde_json::to_string(messages).unwrap_or_default();
        inputs.shift_remove("message");
        if let Ok(messages) = crate::json::parse_value(&messages) {
            inputs.insert("messages".into(), messages);
        }
    }
    inputs
}
