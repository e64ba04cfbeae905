//! The effect of outputs on variables. Shared by the interpreter and by every report that reconstructs the variables of
//! a run from its journal.

use std::sync::Arc;

use super::env::Env;
use super::step::{Assignment, Merge, Step};
use crate::error::StepFailure;
use crate::expr::{Lookup, Template, TemplatePart, TextRules};
use crate::value::Value;

/// The variables that `step` will write, one for each of its writes; an empty name means no write. Names are resolved
/// before the step runs. Fails if a name contains a reference or expression that fails.
pub fn resolve_write_names(step: &Step, env: &Env, rules: TextRules) -> Result<Vec<Arc<str>>, StepFailure> {
    let name = |templates: &[Template]| {
        for template in templates {
            let name: Arc<str> = match template.parts.as_slice() {
                // Nearly every name is a literal of the definition, and its text is shared.
                [TemplatePart::Text(name)] => name.clone(),
                _ => template.resolve(env, rules)?.to_redacted_text().into(),
            };
            if !name.is_empty() {
                return Ok(name);
            }
        }
        Ok("".into())
    };
    step.writes.iter().map(|write| name(&write.names)).collect()
}

/// Applies the output of a step to the variables. A step without an output removes the variable.
pub fn write_output(step: &Step, mut names: Vec<Arc<str>>, output: Option<&Value>, env: &mut Env) {
    if let Some(value) = output
        && step.writes.iter().all(|write| write.merge == Merge::Replace)
    {
        names.retain(|name| !name.is_empty());
        env.vars.set_all(names, value);
        return;
    }
    for (write, name) in step.writes.iter().zip(names) {
        if name.is_empty() {
            continue;
        }
        match (output, write.merge) {
            (Some(value), Merge::Replace) => env.vars.set(name, value.clone()),
            (Some(value), Merge::Append) => env.vars.append(name, value.clone()),
            (None, Merge::Replace) => env.vars.remove(&name),
            (None, Merge::Append) => {}
        }
    }
}

/// Sets variables. The rows see the variables as they were before. Returns the memory that the values take, in bytes. Fails
/// if a name or a value cannot be resolved.
pub fn assign_vars(rows: &[Assignment], env: &mut Env, rules: TextRules) -> Result<usize, StepFailure> {
    let resolve = |row: &Assignment| {
        let name = row.name.resolve(env, rules)?.to_redacted_text();
        Ok((name, row.value.resolve(env, rules)?, row.only_if_falsy))
    };
    let resolved = rows.iter().map(resolve).collect::<Result<Vec<_>, StepFailure>>()?;
    let mut bytes = 0;
    for (name, value, only_if_falsy) in resolved {
        let is_kept = only_if_falsy && env.lookup_name(&name).is_some_and(Value::is_truthy);
        if !name.is_empty() && !is_kept {
            bytes += value.memory_bytes();
            env.vars.set(name.into(), value);
        }
    }
    Ok(bytes)
}
