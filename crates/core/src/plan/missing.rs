//! References that have no value when a step runs: what is reported about them.

use std::sync::{Arc, Mutex, PoisonError};

use crate::expr::{FoundValue, Lookup, Ref};
use crate::plan::Env;
use crate::value::Value;

/// Maximum number of references that are reported for a step.
const MAX_MESSAGES: usize = 10;

/// Maximum number of names in a message.
const MAX_NAMES: usize = 8;

/// Messages about references without a value, shared by all scopes of a run.
#[derive(Clone, Debug, Default)]
pub struct MissingReferences(Arc<Mutex<Vec<String>>>);

impl MissingReferences {
    /// Adds a message, unless it is there already or there are many.
    pub(super) fn add(&self, describe: impl FnOnce() -> String) {
        let mut messages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if messages.len() < MAX_MESSAGES {
            let message = describe();
            if !messages.contains(&message) {
                messages.push(message);
            }
        }
    }

    /// Takes all messages.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Env {
    /// A message about a reference without a value: what it could refer to instead.
    pub(super) fn describe_missing(&self, reference: &Ref) -> String {
        let source = &reference.source;
        if self.lookup_name(&reference.name).is_none() {
            let locals = self.locals.iter().map(|(name, _)| &**name);
            let names = self.vars.as_map().keys().map(|name| &**name).chain(locals);
            return format!("{source} has no value; {}", list_names("the variables are", names));
        }
        // The longest beginning of the path that has a value.
        for length in (0..reference.path.len()).rev() {
            let part = Ref { path: reference.path[..length].to_vec(), ..reference.clone() };
            if let Some(found) = part.find_value(self) {
                return format!("{source} has no value; {}", describe_value(&part, &found));
            }
        }
        format!("{source} is null")
    }
}

/// What a value offers to a reference.
fn describe_value(part: &Ref, found: &FoundValue<'_>) -> String {
    let path = part.path.iter().fold(part.name.to_string(), |path, segment| format!("{path}{segment}"));
    match found {
        FoundValue::Shared(Value::Map(map)) => list_names(&format!("{path} has"), map.keys().map(|key| &**key)),
        FoundValue::Shared(Value::List(items)) => format!("{path} is a list of {} items", items.len()),
        FoundValue::Shared(value) => format!("{path} is {}", value.kind_name()),
        FoundValue::Length(_) => format!("{path} is a number"),
    }
}

fn list_names<'a>(start: &str, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    let more = names.len().saturating_sub(MAX_NAMES);
    let shown = names[..names.len() - more].join(", ");
    match (names.is_empty(), more) {
        (true, _) => format!("{start} none"),
        (false, 0) => format!("{start} {shown}"),
        (false, more) => format!("{start} {shown} and {more} more"),
    }
}
