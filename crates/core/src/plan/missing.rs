//! Reports references that have no value when a step runs.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::expr::js::Js;
use crate::expr::{Expr, FoundValue, Lookup, Ref};
use crate::plan::Env;
use crate::value::Value;

/// Maximum number of references that are reported for a step.
const MAX_MESSAGES: usize = 10;

/// Maximum number of names in a message.
const MAX_NAMES: usize = 8;

/// Messages about references without a value, shared by all scopes of a run.
#[derive(Clone, Debug, Default)]
pub struct MissingReferences(Arc<Mutex<CollectedMessages>>);

#[derive(Debug, Default)]
struct CollectedMessages {
    /// About the request that is being built.
    current: Vec<String>,
    /// About texts that will be part of the next request.
    held: Vec<String>,
}

impl MissingReferences {
    fn lock_messages(&self) -> MutexGuard<'_, CollectedMessages> {
        self.0.lock()
    }

    /// Adds a message, unless it was already added or there are many.
    pub(super) fn add_message(&self, describe: impl FnOnce() -> String) {
        let mut messages = self.lock_messages();
        if messages.current.len() + messages.held.len() < MAX_MESSAGES {
            let message = describe();
            if !messages.current.contains(&message) && !messages.held.contains(&message) {
                messages.current.push(message);
            }
        }
    }

    /// Adds a message about what a text of the next request contains, unless it was already added or there are many.
    pub fn hold_message(&self, message: String) {
        let mut messages = self.lock_messages();
        let has_room = messages.current.len() + messages.held.len() < MAX_MESSAGES;
        if has_room && !messages.held.contains(&message) {
            messages.held.push(message);
        }
    }

    /// Keeps the messages so far for the next request: they are about a text that it contains.
    pub fn hold_messages(&self) {
        let mut messages = self.lock_messages();
        let mut current = std::mem::take(&mut messages.current);
        messages.held.append(&mut current);
    }

    /// Discards the messages that are not held.
    pub fn discard_messages(&self) {
        self.lock_messages().current.clear();
    }

    /// Takes all messages.
    pub fn take_messages(&self) -> Vec<String> {
        let CollectedMessages { mut held, mut current } = std::mem::take(&mut *self.lock_messages());
        held.append(&mut current);
        held
    }
}

impl Env {
    /// A message about a reference without a value: what it could refer to instead.
    pub(super) fn describe_missing(&self, reference: &Ref) -> String {
        let source = &reference.source;
        if self.lookup_name(&reference.name).is_none() {
            let locals = self.locals.iter().map(|(name, _)| &**name);
            let names = self.vars.as_map().keys().map(|name| &**name).chain(locals);
            return format!("{source} has no value; {}", list_variables(names));
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

impl Env {
    /// A message about an expression whose value is `undefined`.
    pub(super) fn describe_undefined(&self, expr: &Expr) -> String {
        let source = match expr {
            Expr::Js(js) => match &**js {
                Js::Placed(inner, place) => {
                    let source = place.source.trim();
                    if let Some(known) = describe_base(inner, self) {
                        return format!("{source} is undefined; {known}");
                    }
                    source.to_owned()
                }
                _ => "an expression".to_owned(),
            },
            Expr::Script(script) => script.source.trim().to_owned(),
            _ => "an expression".to_owned(),
        };
        let locals = self.locals.iter().map(|(name, _)| &**name);
        let names = self.vars.as_map().keys().map(|name| &**name).chain(locals);
        format!("{source} is undefined; {}", list_variables(names))
    }
}

/// Whether an author wrote an expression. A bare name is one of the engine, such as the result of an action that it adds to the
/// conversation.
pub(super) fn is_written(expr: &Expr) -> bool {
    !matches!(expr, Expr::Js(js) if matches!(**js, Js::Name(_)))
}

/// Whether an expression is the word `undefined`: its author wants no value.
pub(super) fn is_written_undefined(expr: &Expr) -> bool {
    let source = match expr {
        Expr::Js(js) => match &**js {
            Js::Placed(_, place) => &*place.source,
            _ => "",
        },
        Expr::Script(script) => &*script.source,
        _ => "",
    };
    source.trim() == "undefined"
}

/// The keys or the length of the object whose member an expression reads; `None` for other expressions.
fn describe_base(js: &Js, env: &Env) -> Option<String> {
    match js {
        Js::Placed(inner, _) | Js::Chain(inner) => describe_base(inner, env),
        Js::Member(base, _, _) => match base.evaluate(env).ok()? {
            Some(Value::Map(map)) => {
                let path = member_path(base).unwrap_or_else(|| "the object".to_owned());
                Some(list_names(&format!("{path} has"), map.keys().map(|key| &**key)))
            }
            Some(Value::List(items)) => {
                let path = member_path(base).unwrap_or_else(|| "it".to_owned());
                Some(format!("{path} is a list of {} items", items.len()))
            }
            _ => None,
        },
        _ => None,
    }
}

/// A name or members of one, as they are written.
fn member_path(js: &Js) -> Option<String> {
    match js {
        Js::Name(name) => Some(name.to_string()),
        Js::Placed(inner, _) | Js::Chain(inner) => member_path(inner),
        Js::Member(base, key, _) => match &**key {
            Js::Literal(Value::String(key)) => Some(format!("{}.{key}", member_path(base)?)),
            _ => None,
        },
        _ => None,
    }
}

/// A description of a value: the names of its entries, its length or its type.
fn describe_value(part: &Ref, found: &FoundValue<'_>) -> String {
    let path = part.path.iter().fold(part.name.to_string(), |path, segment| format!("{path}{segment}"));
    match found {
        FoundValue::Shared(Value::Map(map)) => list_names(&format!("{path} has"), map.keys().map(|key| &**key)),
        FoundValue::Shared(Value::List(items)) => format!("{path} is a list of {} items", items.len()),
        FoundValue::Shared(value) => format!("{path} is {}", value.kind_name()),
        FoundValue::Length(_) => format!("{path} is a number"),
    }
}

fn list_variables<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names = names.peekable();
    if names.peek().is_none() { "there are no variables".to_owned() } else { list_names("the variables are", names) }
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
