//! The payload of a function call, and the arguments that a built-in function reads from it.

use std::sync::Arc;

use super::marks::MarkedArguments;
use crate::hash::{Hash, Hasher};
use crate::json::{parse_value, read_lenient};
use crate::rich::Rich;
use crate::value::{Map, Value};

/// The payload of a function call: all variables, entries of the calling step, and the prompt.
///
/// The variables are shared, not copied, and hashed by their digest, so passing all of them to every step has linear
/// cost.
#[derive(Clone, Debug)]
pub struct Payload {
    /// The variables at the time of the call.
    pub vars: Arc<Map>,
    /// The digest of the variables.
    pub digest: Hash,
    /// Further entries; they shadow variables of the same name.
    pub extra: Vec<(Arc<str>, Value)>,
    /// The prompt; `None` for calls without one.
    pub prompt: Option<Rich>,
    /// The prompt of which the author wrote a JSON object, with values escaped within its strings, so that no value can
    /// add arguments; `None` if that changes nothing.
    pub escaped_prompt: Option<Rich>,
    /// Whether the prompt is the one of a step whose author wrote none. It is not part of the hash: a prompt with the
    /// same text gives the same arguments.
    pub has_default_prompt: bool,
    /// The variables with marks in the place of secrets; `None` if they contain none.
    pub marked: Option<Arc<MarkedArguments>>,
}

impl Payload {
    /// A payload of plain arguments, as a model or a person supplies them.
    pub fn from_arguments(arguments: Map) -> Payload {
        let digest = Hash::of_value(&arguments.clone().into());
        Payload {
            vars: Arc::new(arguments),
            digest,
            extra: Vec::new(),
            prompt: None,
            escaped_prompt: None,
            has_default_prompt: false,
            marked: None,
        }
    }

    /// The first secret of the payload, if it contains one.
    pub fn first_secret(&self) -> Option<&str> {
        let marked = || self.marked.as_ref()?.marks.names().first().map(String::as_str);
        self.prompt.as_ref().and_then(Rich::first_secret).or_else(marked)
    }

    /// The payload with arguments in which marks replace its secrets.
    pub fn with_marks(self, marked: MarkedArguments) -> Payload {
        Payload { marked: Some(Arc::new(marked)), ..self }
    }

    /// The whole payload as one object, with secrets as names.
    pub fn to_value(&self) -> Value {
        let mut map = (*self.vars).clone();
        for (key, value) in &self.extra {
            map.insert(key.clone(), value.clone());
        }
        if let Some(prompt) = &self.prompt {
            map.insert("prompt".into(), prompt.to_redacted_text().into());
        }
        map.into()
    }

    /// One entry of the payload, without building the whole object.
    pub fn get(&self, key: &str) -> Option<Value> {
        match &self.prompt {
            Some(prompt) if key == "prompt" => Some(prompt.to_redacted_text().into()),
            _ => {
                let extra = self.extra.iter().rev().find(|(name, _)| &**name == key).map(|(_, value)| value);
                extra.or_else(|| self.vars.get(key)).cloned()
            }
        }
    }

    /// The named arguments of a built-in function with one required argument, `required`. They come from `input`
    /// if that is an object and the prompt is the default one, otherwise from a JSON object in the prompt, otherwise from
    /// the variables; if there is no variable `required`, the whole prompt is this argument. A payload without a prompt holds
    /// the arguments themselves.
    pub fn read_arguments(&self, required: &str) -> Arguments {
        let Some(prompt) = &self.prompt else {
            return match &self.marked {
                Some(marked) => Arguments::Marked(marked.clone()),
                None => Arguments::Values((*self.vars).clone()),
            };
        };
        let mut variables = (*self.vars).clone();
        variables.extend(self.extra.iter().cloned());
        let has_required = |map: &Map| map.get(required).is_some_and(|value| *value != Value::Null);
        // Every run has the variable `input`, which a prompt usually contains.
        let is_variable = required != "input" && has_required(&variables);
        if let Some(Value::Map(input)) = self.get("input").filter(|_| self.has_default_prompt) {
            return match has_required(&input) || !is_variable {
                true => Arguments::Values((*input).clone()),
                false => Arguments::Variables(variables),
            };
        }
        let is_object = |text: &&Rich| matches!(parse_object(&text.to_redacted_text()), Some(Value::Map(_)));
        if let Some(object) = self.escaped_prompt.iter().chain([prompt]).find(is_object) {
            return Arguments::Object(object.clone());
        }
        if is_variable {
            return Arguments::Variables(variables);
        }
        Arguments::Prompt(PromptArgument { name: required.into(), text: prompt.clone(), variables })
    }

    /// Adds the whole payload to a hash.
    pub(crate) fn hash_into(&self, hasher: &mut Hasher) {
        hasher.add_hash(&self.digest).add_number(self.extra.len() as u64);
        for (key, value) in &self.extra {
            hasher.add_text(key).add_value(value);
        }
        for prompt in self.prompt.iter().chain(&self.escaped_prompt) {
            prompt.hash_into(hasher);
        }
    }
}

/// The source of a built-in function's arguments. Secrets in text are still names.
#[derive(Clone, Debug)]
pub enum Arguments {
    /// Values by name.
    Values(Map),
    /// The variables of the calling step, among which is the required argument.
    Variables(Map),
    /// Values by name, with marks in the place of secrets.
    Marked(Arc<MarkedArguments>),
    /// Text that holds one JSON object.
    Object(Rich),
    /// The prompt as one argument, and the variables as the others.
    Prompt(PromptArgument),
}

/// A prompt that is an argument.
#[derive(Clone, Debug)]
pub struct PromptArgument {
    /// The name of the argument.
    pub name: Arc<str>,
    /// Its text.
    pub text: Rich,
    /// The other arguments.
    pub variables: Map,
}

impl Arguments {
    /// The arguments by name, with each secret replaced by `fill(name)`. Only text of the definition itself can contain
    /// a secret.
    pub fn fill_secrets(&self, fill: impl Fn(&str) -> String) -> Map {
        match self {
            Arguments::Values(map) | Arguments::Variables(map) => map.clone(),
            Arguments::Marked(marked) => {
                let text = |text: &str| marked.marks.restore_secrets(text).fill_secrets(&fill);
                let entry = |(name, value): (&Arc<str>, &Value)| (name.clone(), value.map_strings(&text));
                marked.map.iter().map(entry).collect()
            }
            Arguments::Object(rich) => {
                let escaped = |name: &str| {
                    let quoted = crate::render::to_json(&fill(name).into());
                    quoted[1..quoted.len() - 1].to_owned()
                };
                match parse_object(&rich.fill_secrets(escaped)) {
                    Some(Value::Map(map)) => (*map).clone(),
                    _ => Map::new(),
                }
            }
            Arguments::Prompt(PromptArgument { name, text, variables }) => {
                let mut map = variables.clone();
                map.insert(name.clone(), text.fill_secrets(fill).into());
                map
            }
        }
    }

    /// The arguments by name, with secrets as `${secret.NAME}`.
    pub fn to_redacted_map(&self) -> Map {
        self.fill_secrets(|name| format!("${{secret.{name}}}"))
    }
}

fn parse_object(text: &str) -> Option<Value> {
    let trimmed = text.trim();
    if trimmed.starts_with('{') { parse_value(trimmed).ok().or_else(|| read_lenient(trimmed)) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload_with_prompt(vars: &str, prompt: &str) -> Payload {
        let Some(Value::Map(vars)) = parse_object(vars) else { panic!("{vars} is an object") };
        Payload { prompt: Some(prompt.into()), ..Payload::from_arguments((*vars).clone()) }
    }

    fn read_as_json(payload: &Payload, required: &str) -> String {
        crate::render::to_json(&payload.read_arguments(required).to_redacted_map().into())
    }

    #[test]
    fn arguments_come_from_the_prompt_or_the_variables() {
        let read =
            |vars: &str, prompt: &str, required: &str| read_as_json(&payload_with_prompt(vars, prompt), required);
        assert_eq!(read(r#"{"input": "x", "url": "b"}"#, r#"{"url": "c"}"#, "url"), r#"{"url":"c"}"#);
        assert_eq!(read(r#"{"input": "x", "url": "b"}"#, "c", "url"), r#"{"input":"x","url":"b"}"#);
        assert_eq!(read(r#"{"input": "x", "method": "PUT"}"#, "c", "url"), r#"{"input":"x","method":"PUT","url":"c"}"#);
        assert_eq!(read(r#"{"input": "x", "url": null}"#, "c", "url"), r#"{"input":"x","url":"c"}"#);
        assert_eq!(read(r#"{"input": "x"}"#, "Shorten x", "input"), r#"{"input":"Shorten x"}"#);
    }

    /// A prompt that the author wrote reaches the function, whatever `input` is.
    #[test]
    fn an_object_as_input_gives_the_arguments_unless_a_prompt_is_written() {
        let read = |vars: &str, prompt: &str, has_default_prompt: bool| {
            read_as_json(&Payload { has_default_prompt, ..payload_with_prompt(vars, prompt) }, "url")
        };
        let input = r#"{"input": {"url": "a"}}"#;
        assert_eq!(read(input, "c", false), r#"{"input":{"url":"a"},"url":"c"}"#);
        assert_eq!(read(input, r#"{"url": "c"}"#, false), r#"{"url":"c"}"#);
        assert_eq!(read(input, r#"{"url":"a"}"#, true), r#"{"url":"a"}"#);
        let both = r#"{"input": {"url": "a"}, "url": "b"}"#;
        assert_eq!(read(both, r#"{"url":"a"}"#, true), r#"{"url":"a"}"#);
        let other = r#"{"input": {"status": 200}, "url": "b"}"#;
        assert_eq!(read(other, r#"{"status":200}"#, true), r#"{"input":{"status":200},"url":"b"}"#);
        assert_eq!(read(r#"{"input": {"status": 200}}"#, r#"{"status":200}"#, true), r#"{"status":200}"#);
    }

    #[test]
    fn a_value_within_a_string_of_the_prompt_adds_no_argument() {
        let payload = Payload {
            prompt: Some(r#"{"path": "safe.txt", "content": "x", "path": "evil"}"#.into()),
            escaped_prompt: Some(r#"{"path": "safe.txt", "content": "x\", \"path\": \"evil"}"#.into()),
            ..Payload::from_arguments(Map::new())
        };
        let read = crate::render::to_json(&payload.read_arguments("path").to_redacted_map().into());
        assert_eq!(read, r#"{"path":"safe.txt","content":"x\", \"path\": \"evil"}"#);
        let mut hashers = [Hasher::new(), Hasher::new()];
        payload.hash_into(&mut hashers[0]);
        Payload { escaped_prompt: None, ..payload }.hash_into(&mut hashers[1]);
        let [with, without] = hashers.map(|mut hasher| hasher.finish());
        assert_ne!(with, without, "the arguments are others");
    }
}
