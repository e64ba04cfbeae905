//! Calls of the built-in functions that send one request: method and host, where the definition has them as text.

use super::Bound;
use super::walk::{StepLocation, Walk};
use crate::expr::{Data, Template, TemplatePart};
use crate::json::parse_value;
use crate::plan::{FunctionCall, Step};
use crate::value::Value;

/// Functions whose argument `url` is the address of their request.
const REQUEST_FUNCTIONS: [&str; 2] = ["tool::http_request", "tool::web_fetch"];

/// A placeholder for a value of the run in a prompt.
const UNKNOWN: char = '\u{fffc}';

/// The arguments of a request as far as they are text.
struct KnownArguments {
    url: Template,
    /// `None` if a value of the run decides it.
    method: Option<String>,
}

impl Walk<'_> {
    /// One call of a function by a step with a prompt.
    pub(super) fn bound_step_call(&mut self, step: &Step, place: &StepLocation, call: &FunctionCall) -> Bound {
        let bound = self.bound_function(step, place, &call.function);
        let is_written = call.arguments.is_none() && !call.has_default_prompt;
        match read_prompt(&call.prompt).filter(|_| is_written) {
            Some(known) => self.with_address(bound, &call.function, &known),
            // A prompt is the address if there is no variable of that name.
            None if is_written && !self.sizes.has_variable("url") => {
                let known = KnownArguments { url: call.prompt.clone(), method: None };
                self.with_address(bound, &call.function, &known)
            }
            None => bound,
        }
    }

    /// One call of a function by a block.
    pub(super) fn bound_block_call(
        &mut self,
        step: &Step,
        place: &StepLocation,
        function: &str,
        inputs: &Data,
    ) -> Bound {
        let bound = self.bound_function(step, place, function);
        match read_inputs(inputs) {
            Some(known) => self.with_address(bound, function, &known),
            None => bound,
        }
    }

    /// A bound whose request has the method and the host of the arguments.
    fn with_address(&self, bound: Bound, function: &str, known: &KnownArguments) -> Bound {
        if !REQUEST_FUNCTIONS.contains(&function) {
            return bound;
        }
        let host = self.find_host(&known.url);
        let mut all = Bound { requests: Default::default(), ..bound };
        for ((method, _), count) in bound.requests {
            let method = known.method.clone().filter(|_| method == "*").unwrap_or(method);
            all.requests.insert((method, host.clone()), count);
        }
        all
    }
}

/// The arguments in a prompt that is a JSON object, with values of the run within its texts.
fn read_prompt(prompt: &Template) -> Option<KnownArguments> {
    let text: String = prompt
        .parts
        .iter()
        .map(|part| if let TemplatePart::Text(text) = part { text.to_string() } else { UNKNOWN.to_string() })
        .collect();
    let Ok(Value::Map(arguments)) = parse_value(&text) else { return None };
    let url = arguments.get("url")?.as_str()?;
    let method = match arguments.get("method") {
        None => Some("GET".to_owned()),
        Some(method) => method.as_str().filter(|text| !text.contains(UNKNOWN)).map(write_method),
    };
    let (known, unknown) = url.split_once(UNKNOWN).map_or((url, false), |(known, _)| (known, true));
    let mut parts = vec![TemplatePart::Text(known.into())];
    if unknown {
        // Something that is not known; which value of the run it is does not matter.
        parts.push(TemplatePart::Secret("".into()));
    }
    Some(KnownArguments { url: Template { parts }, method })
}

/// The arguments in the inputs of a block.
fn read_inputs(inputs: &Data) -> Option<KnownArguments> {
    let find = |name: &str| match inputs {
        Data::Constant(Value::Map(map)) => map.get(name).cloned().map(Data::Constant),
        Data::Map(entries) => entries.iter().find(|(key, _)| &**key == name).map(|(_, data)| data.clone()),
        _ => None,
    };
    let as_template = |data: Data| match data {
        Data::Constant(value) => value.as_str().map(Template::from_literal),
        Data::Text(template) => Some(template),
        Data::List(_) | Data::Map(_) => None,
    };
    let method = match find("method") {
        None => Some("GET".to_owned()),
        Some(data) => as_template(data).and_then(|text| text.as_literal().map(write_method)),
    };
    Some(KnownArguments { url: as_template(find("url")?)?, method })
}

fn write_method(method: &str) -> String {
    match method.trim() {
        "" => "GET".to_owned(),
        method => method.to_ascii_uppercase(),
    }
}
