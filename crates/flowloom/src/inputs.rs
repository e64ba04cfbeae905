//! Parses inputs and budgets given on the command line.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use flowloom_app::config::Config;
use flowloom_app::runs;
use flowloom_app::runs::inputs::{check_conversation_inputs, coerce_to_kind, lacks_message};
use flowloom_core::diagnostic::find_similar_name;
use flowloom_core::json::parse_value;
use flowloom_core::limits::Limits;
use flowloom_core::plan::{Inputs, Plan};
use flowloom_core::value::{Map, Value};
use flowloom_formats::flow;

use crate::failure::CommandError;
use crate::input_files::read_named_file;

/// Reads the inputs of a run: `--input`, overridden by each `-i`. A required input whose `-i` names no text is missing: a shell
/// leaves such an option behind where a variable is not set. Empty texts in JSON are values.
pub(crate) fn read_inputs(
    config: &Config,
    plan: &Plan,
    values: &[String],
    file: Option<&Path>,
) -> Result<Value, CommandError> {
    let whole = file.map(read_input_file).transpose()?;
    let is_whole = matches!(plan.inputs, Inputs::Whole(_));
    let base = match whole {
        None if is_whole && values.is_empty() => return Ok(plan.inputs.none_given()),
        None => Map::new(),
        Some(text) => match parse_value(&text) {
            Ok(Value::Map(map)) => (*map).clone(),
            Ok(value) if is_whole && values.is_empty() => return Ok(value),
            Err(_) if is_whole && text.trim().is_empty() && values.is_empty() => return Ok(plan.inputs.none_given()),
            Err(_) if is_whole && values.is_empty() && !is_json_file(file) => {
                return Ok(text.trim_end_matches('\n').into());
            }
            Ok(other) => {
                return Err(CommandError::usage(format!("the input must be a JSON object, not {}", other.kind_name())));
            }
            Err(error) => return Err(CommandError::usage(format!("the input is not JSON: {error}"))),
        },
    };
    let mut map = base;
    let mut given = BTreeSet::new();
    for option in values {
        let (name, value) = parse_input(config, plan, option)?;
        if !given.insert(name) {
            let advice = "give it once; a list is -i NAME:='[\"a\", \"b\"]'";
            return Err(CommandError::usage(format!("the input {name} is given twice; {advice}")));
        }
        if let Inputs::Whole(own) = &plan.inputs
            && name != &**own
            && find_similar_name(name, [&**own]).is_some()
        {
            return Err(CommandError::usage(format!("there is no input {name}; did you mean {own}?")));
        }
        match &plan.inputs {
            Inputs::Whole(own) if is_left_empty(option) && name == &**own => map.insert(name.into(), Value::Null),
            inputs if is_left_empty(option) && requires_input(inputs, name) => map.shift_remove(name),
            _ => map.insert(name.into(), value),
        };
    }
    // The only input of a step list is called `input`.
    if let (Inputs::Whole(name), None, 1) = (&plan.inputs, file, map.len())
        && let Some(value) = map.get(name)
    {
        return Ok(value.clone());
    }
    check_conversation_inputs(plan, &map).map_err(|failure| CommandError::usage(failure.message))?;
    for warning in flow::describe_unused_inputs(plan, &map) {
        eprintln!("warning: {warning}");
    }
    Ok(map.into())
}

/// Fails if what the definition works on is missing or empty: the input of a step list, the message of a conversation.
pub(crate) fn check_subject(plan: &Plan, inputs: &Value) -> Result<(), CommandError> {
    match find_missing_subject(plan, inputs) {
        None => Ok(()),
        Some(MissingSubject::Message) => {
            Err(CommandError::usage("there is no message to answer; give one with -i message='…'"))
        }
        Some(MissingSubject::Whole(name)) => {
            let message = format!("there is no input, or it is empty; give one with -i {name}='…' or --input FILE");
            Err(CommandError::usage(message))
        }
    }
}

/// Fails if a required input is missing. Inputs of the wrong kind are left to the start of the run.
pub(crate) fn check_required(plan: &Plan, inputs: &Value) -> Result<(), CommandError> {
    let missing = plan.inputs.find_missing(inputs);
    let failure = plan.inputs.check_inputs(inputs).filter(|_| !missing.is_empty());
    let Some(failure) = failure else { return Ok(()) };
    let options: Vec<String> = missing.iter().map(|name| format!("-i {name}=…")).collect();
    let them = if missing.len() == 1 { "it" } else { "them" };
    let message = format!("{}; give {them} with {}", failure.message, options.join(" "));
    Err(CommandError::new(failure.code, message))
}

/// The missing main input of a definition.
pub(crate) enum MissingSubject {
    /// The message of a conversation.
    Message,
    /// The only input of a step list, with its name.
    Whole(Arc<str>),
}

/// The main input of the definition, if it is missing; `None` if it is given.
pub(crate) fn find_missing_subject(plan: &Plan, inputs: &Value) -> Option<MissingSubject> {
    match &plan.inputs {
        Inputs::Whole(name) if *inputs == Value::Null && plan.reads_whole_input() => {
            Some(MissingSubject::Whole(name.clone()))
        }
        _ if lacks_message(plan, inputs) => Some(MissingSubject::Message),
        _ => None,
    }
}

/// Whether an `-i` has no text behind its `=`.
fn is_left_empty(option: &str) -> bool {
    option.split_once('=').is_some_and(|(name, text)| !name.ends_with(':') && text.trim().is_empty())
}

fn requires_input(inputs: &Inputs, name: &str) -> bool {
    let Inputs::Named { declared, .. } = inputs else { return false };
    declared.iter().any(|input| input.required && input.name == name)
}

/// Parses one `-i` according to the input's declared kind.
fn parse_input<'a>(config: &Config, plan: &Plan, text: &'a str) -> Result<(&'a str, Value), CommandError> {
    let find_input = |name: &str| match &plan.inputs {
        Inputs::Named { declared, .. } => declared.iter().find(|input| input.name == name),
        Inputs::Whole(_) => None,
    };
    // With `:=` the value itself is given.
    if let Some((name, place)) = text.split_once('=')
        && let Some(input) = find_input(name).filter(|input| input.is_file)
        && !place.is_empty()
    {
        return Ok((name, read_named_file(config, input, place.strip_prefix('@').unwrap_or(place))?));
    }
    let (name, value) = parse_pair("-i", text)?;
    let value = match find_input(name) {
        Some(input) => coerce_to_kind(&input.kind, value),
        None => value,
    };
    Ok((name, value))
}

/// Whether the input is in a file that says that it is JSON.
fn is_json_file(file: Option<&Path>) -> bool {
    file.and_then(Path::extension).is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
}

/// Reads the file of `--input`.
fn read_input_file(path: &Path) -> Result<String, CommandError> {
    let advice = "--input names a file, or - for stdin; a single input is -i NAME=VALUE";
    read_text_file(path, "input", advice)
}

/// Reads a text file; `-` reads stdin. `what` it is and `advice` are for the error.
pub(crate) fn read_text_file(path: &Path, what: &str, advice: &str) -> Result<String, CommandError> {
    let failed =
        |error| CommandError::usage(format!("the {what} {} cannot be read: {error}; {advice}", path.display()));
    read_text(path).map_err(failed)
}

/// The text of a file, without its byte order mark.
fn read_text(path: &Path) -> std::io::Result<String> {
    let text = match path.to_str() {
        Some("-") => std::io::read_to_string(std::io::stdin())?,
        _ => std::fs::read_to_string(path)?,
    };
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// Parses the `name=text`, `name=@file` or `name:=JSON` of an option such as `-i`.
pub(crate) fn parse_pair<'t>(option: &str, text: &'t str) -> Result<(&'t str, Value), CommandError> {
    let wrong = || CommandError::usage(format!("{option} expects name=value, name=@file or name:=JSON, not {text:?}"));
    parse_assignment(text).ok_or_else(wrong)?
}

/// Parses an entry of a profile in the same form.
pub(crate) fn parse_entry(text: &str) -> Result<(&str, Value), CommandError> {
    let wrong = || CommandError::usage(format!("an entry is name=value, name=@file or name:=JSON, not {text:?}"));
    parse_assignment(text).ok_or_else(wrong)?
}

/// `None` if the text has no `=`, or no name before it.
fn parse_assignment(text: &str) -> Option<Result<(&str, Value), CommandError>> {
    let (name, value) = text.split_once('=').filter(|(name, _)| !matches!(name.trim(), "" | ":"))?;
    Some(parse_assigned(name, value))
}

fn parse_assigned<'a>(name: &'a str, value: &str) -> Result<(&'a str, Value), CommandError> {
    if let Some(name) = name.strip_suffix(':') {
        let value = parse_value(value)
            .map_err(|error| CommandError::usage(format!("the value of {name} is not JSON: {error}")))?;
        return Ok((name, value));
    }
    match value.strip_prefix('@') {
        Some(file) => {
            let failed = |error| {
                let advice = format!("the text itself is {name}:='\"@…\"'");
                CommandError::usage(format!("the file {file} of {name} cannot be read: {error}; {advice}"))
            };
            Ok((name, read_text(Path::new(file)).map_err(failed)?.into()))
        }
        None => Ok((name, value.into())),
    }
}

/// Puts the bounds of `--budget` into the limits.
pub(crate) fn parse_budget(text: &str, limits: &mut Limits) -> Result<(), CommandError> {
    runs::inputs::parse_budget(text, limits).map_err(|error| CommandError::usage(format!("--budget: {error}")))
}
