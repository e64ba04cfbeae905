//! The payload of a function call, and the arguments a built-in function reads from it.

use std::sync::Arc;

use crate::hash::{Hash, Hasher};
use crate::json::{parse_value, read_lenient};
use crate::rich::Rich;
use crate::value::{Map, Value};

/// What a function is called with: all variables, what the place adds, and the prompt.
///
/// The variables are shared, not copied, and hashed by their digest: passing all of them to every step stays linear.
#[derive(Clone, Debug)]
pub struct Payload {
    /// The variables at the time of the call.
    pub vars: Arc<Map>,
    /// Their digest.
    pub digest: Hash,
    /// Further entries, which hide variables of the same name.
    pub extra: Vec<(Arc<str>, Value)>,
    /// The prompt; `None` for calls that have none.
    pub prompt: Option<Rich>,
}

impl Payload {
    /// A payload of plain arguments, as a model or a person gives them.
    pub fn of(arguments: Map) -> Payload {
        let digest = Hash::of_value(&arguments.clone().into());
        Payload { vars: Arc::new(arguments), digest, extra: Vec::new(), prompt: None }
    }

    /// The whole payload as one object (secrets by name).
    pub fn to_value(&self) -> Value {
        let mut map = (*self.vars).clone();
        for (key, value) in &self.extra {
            map.insert(key.clone(), value.clone());
        }
        if let Some(prompt) = &self.prompt {
            map.insert("prompt".into(), prompt.names_only().into());
        }
        map.into()
    }

    /// One entry, without building the whole object.
    pub fn get(&self, key: &str) -> Option<Value> {
        match &self.prompt {
            Some(prompt) if key == "prompt" => Some(prompt.names_only().into()),
            _ => {
                let extra = self.extra.iter().rev().find(|(name, _)| &**name == key).map(|(_, value)| value);
                extra.or_else(|| self.vars.get(key)).cloned()
            }
        }
    }

    /// The named arguments of a built-in function whose one required argument is `required`: `input` when it is an
    /// object, else a JSON object in the prompt, else the prompt is the required argument. A payload without a prompt
    /// is the arguments themselves.
    pub fn arguments(&self, required: &str) -> Arguments {
        let Some(prompt) = &self.prompt else {
            return Arguments::Values((*self.vars).clone());
        };
        if let Some(Value::Map(input)) = self.get("input") {
            return Arguments::Values((*input).clone());
        }
        let text = prompt.names_only();
        let is_object = |text: &str| matches!(object_in(text), Some(Value::Map(_)));
        if is_object(&text) {
            return Arguments::Object(prompt.clone());
        }
        Arguments::Single(required.into(), prompt.clone())
    }

    /// Adds everything in it to a hash.
    pub(crate) fn hash_into(&self, hasher: &mut Hasher) {
        hasher.hash(&self.digest).number(self.extra.len() as u64);
        for (key, value) in &self.extra {
            hasher.text(key).value(value);
        }
        if let Some(prompt) = &self.prompt {
            prompt.hash_into(hasher);
        }
    }
}

/// Where the arguments of a built-in function came from; secrets in text are still names.
#[derive(Clone, Debug)]
pub enum Arguments {
    /// Values by name.
    Values(Map),
    /// Text that holds one JSON object.
    Object(Rich),
    /// The one required argument as text.
    Single(Arc<str>, Rich),
}

impl Arguments {
    /// The arguments by name. Only text that the definition itself holds can contain a secret; `fill` gives its value.
    pub fn fill(&self, fill: impl Fn(&str) -> String) -> Map {
        match self {
            Arguments::Values(map) => map.clone(),
            Arguments::Object(rich) => {
                let escaped = |name: &str| {
                    let quoted = crate::render::json(&fill(name).into());
                    quoted[1..quoted.len() - 1].to_owned()
                };
                match object_in(&rich.fill(escaped)) {
                    Some(Value::Map(map)) => (*map).clone(),
                    _ => Map::new(),
                }
            }
            Arguments::Single(name, rich) => Map::from_iter([(name.clone(), rich.fill(fill).into())]),
        }
    }

    /// The arguments by name, secrets as names.
    pub fn names_only(&self) -> Map {
        self.fill(|name| format!("${{secret.{name}}}"))
    }
}

fn object_in(text: &str) -> Option<Value> {
    let trimmed = text.trim();
    if trimmed.starts_with('{') { parse_value(trimmed).ok().or_else(|| read_lenient(trimmed)) } else { None }
}
