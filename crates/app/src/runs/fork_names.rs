//! Which variables and inputs a fork can set. A value that nothing would read is refused.

use std::collections::BTreeSet;
use std::sync::Arc;

use flowloom_core::diagnostic::find_similar_name;
use flowloom_core::path::Path;
use flowloom_core::plan::{Inputs, Plan, find_scoped, list_scoped_names, list_variable_names};
use flowloom_core::value::Value;

use super::fork_error::ForkError;
use super::inputs::is_conversation;

/// Fails if a variable is set right before the step `at` that is none there: no step in the same scope reads or writes it, or
/// it has begun the conversation already.
pub(super) fn check_set_variables<'n>(
    plan: &Plan,
    at: &Path,
    inputs: &Value,
    mut set: impl Iterator<Item = &'n str>,
) -> Result<(), ForkError> {
    let plain = Path::parse(&at.drop_repetitions()).unwrap_or_else(Path::root);
    if let Some(scoped) = find_scoped(&plan.root, &plain) {
        let Some(known) = list_scoped_names(scoped) else { return Ok(()) };
        let Some(name) = set.find(|name| !known.contains(*name)) else { return Ok(()) };
        let (name, at) = (name.to_owned(), at.to_string());
        return Err(ForkError::OutsideVariable { name, at, sees: join_names(&known) });
    }
    let Some(mut known) = list_variable_names(&plan.root) else { return Ok(()) };
    if plan.thread.is_none() {
        known.extend(list_input_names(plan, inputs));
    }
    let Some(name) = set.find(|name| !known.contains(*name)) else { return Ok(()) };
    if list_input_names(plan, inputs).contains(name) {
        return Err(ForkError::ConversationInput(name.to_owned()));
    }
    Err(ForkError::UnknownVariable { name: name.to_owned(), advice: suggest_names(name, &known, "variables") })
}

/// Fails if an input is set that the workflow does not have.
pub(super) fn check_set_inputs<'n>(
    plan: &Plan,
    inputs: &Value,
    mut set: impl Iterator<Item = &'n str>,
) -> Result<(), ForkError> {
    if !matches!(&plan.inputs, Inputs::Named { accepts_others: false, .. }) {
        return Ok(());
    }
    let known = list_input_names(plan, inputs);
    match set.find(|name| !known.contains(*name)) {
        Some(name) => {
            Err(ForkError::UnknownInput { name: name.to_owned(), advice: suggest_names(name, &known, "inputs") })
        }
        None => Ok(()),
    }
}

/// The inputs of a run for another definition. Fails if that does not have some of them, unless new inputs are set.
pub(super) fn carry_inputs(plan: &Plan, inputs: Value, sets_others: bool) -> Result<Value, ForkError> {
    let Inputs::Named { declared, .. } = &plan.inputs else { return Ok(inputs) };
    // A conversation reads its message, and whatever else its agents name.
    if is_conversation(plan) {
        return Ok(if inputs.as_map().is_some() { inputs } else { Value::map::<&str>([]) });
    }
    let Value::Map(given) = &inputs else {
        let is_given = !matches!(inputs, Value::Null) && inputs.as_str() != Some("");
        if is_given && !sets_others {
            return Err(ForkError::UnnamedInput(list_declared(plan)));
        }
        return Ok(Value::map::<&str>([]));
    };
    let Some(mut known) = list_variable_names(&plan.root) else { return Ok(inputs) };
    known.extend(declared.iter().map(|input| input.name.as_str().into()));
    let dropped: Vec<String> =
        given.keys().filter(|name| !known.contains(*name)).map(|name| name.to_string()).collect();
    if !dropped.is_empty() && !sets_others {
        return Err(ForkError::DroppedInputs { names: dropped, known: list_declared(plan) });
    }
    let kept = given.iter().filter(|(name, _)| known.contains(*name));
    Ok(Value::map(kept.map(|(name, value)| (name.clone(), value.clone()))))
}

/// The inputs that a workflow declares, in one text.
fn list_declared(plan: &Plan) -> String {
    let names = join_names(&list_input_names(plan, &Value::Null));
    if names.is_empty() { "no inputs".to_owned() } else { names }
}

/// The names of the inputs that a workflow declares, and of those that a run has.
fn list_input_names(plan: &Plan, inputs: &Value) -> BTreeSet<Arc<str>> {
    let mut names: BTreeSet<Arc<str>> = inputs.as_map().into_iter().flat_map(|map| map.keys().cloned()).collect();
    match &plan.inputs {
        Inputs::Whole(name) => drop(names.insert(name.clone())),
        Inputs::Named { declared, .. } => names.extend(declared.iter().map(|input| input.name.as_str().into())),
    }
    names
}

/// A similar name, or all names.
fn suggest_names(name: &str, known: &BTreeSet<Arc<str>>, noun: &str) -> String {
    match find_similar_name(name, known.iter().map(|name| &**name)) {
        Some(similar) => format!("did you mean {similar}?"),
        None if known.is_empty() => format!("it has no {noun}"),
        None => format!("its {noun} are {}", join_names(known)),
    }
}

fn join_names(names: &BTreeSet<Arc<str>>) -> String {
    names.iter().map(|name| &**name).collect::<Vec<_>>().join(", ")
}
