//! Prompts at the terminal for required inputs that were not given.

use std::io::IsTerminal as _;
use std::path::Path;

use flowloom_app::config::Config;
use flowloom_core::code::Code;
use flowloom_core::effect::AskRequest;
use flowloom_core::plan::{Input, InputKind, Inputs, Plan};
use flowloom_core::value::{Number, Value};

use crate::failure::CommandError;
use crate::input_files::read_named_file;
use crate::inputs::{self, MissingSubject, find_missing_subject};
use crate::terminal::prompt::{prompt_choice, prompt_text, prompt_yes_or_no};

/// Whether stdin and stderr are terminals, so that a person can answer prompts.
pub(crate) fn can_prompt() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Returns the given inputs, completed with prompted values for required inputs that are missing.
pub(crate) fn prompt_missing_inputs(config: &Config, plan: &Plan, given: Value) -> Result<Value, CommandError> {
    match find_missing_subject(plan, &given) {
        Some(MissingSubject::Whole(name)) => {
            return prompt_subject(&name).and_then(resolve_text);
        }
        Some(MissingSubject::Message) => {
            let mut map = given.as_map().cloned().unwrap_or_default();
            map.insert("message".into(), prompt_subject("message")?.into());
            return Ok(map.into());
        }
        None => {}
    }
    let (Inputs::Named { declared, .. }, Some(map)) = (&plan.inputs, given.as_map()) else { return Ok(given) };
    let mut map = map.clone();
    for input in declared.iter().filter(|input| input.required) {
        if !map.contains_key(input.name.as_str()) {
            let value = prompt_input(config, input).map_err(|error| advise_option(&input.name, error))?;
            map.insert(input.name.as_str().into(), value);
        }
    }
    Ok(map.into())
}

/// Prompts for what a definition works on.
fn prompt_subject(name: &str) -> Result<String, CommandError> {
    prompt_value(name, None).map_err(|error| advise_option(name, error))
}

fn prompt_input(config: &Config, input: &Input) -> Result<Value, CommandError> {
    let question = input.description.as_deref().unwrap_or(&input.name);
    if input.is_file {
        return prompt_value(question, Some("the path or the address of the file"))
            .and_then(|place| read_named_file(config, input, place.trim()));
    }
    match &input.kind {
        InputKind::Any | InputKind::Text => {
            prompt_value(question, Some("@FILE takes the text of a file")).and_then(resolve_text)
        }
        InputKind::Number => prompt_text(question, None, Some(check_number)).map(Value::from),
        InputKind::Boolean => prompt_yes_or_no(question).map(Value::from),
        InputKind::OneOf(options) => prompt_option(question, options, &input.labels),
        InputKind::File => prompt_value(question, Some("the path or the address of the file"))
            .and_then(|place| read_named_file(config, input, place.trim())),
        InputKind::List => prompt_list(question),
    }
}

/// Lets a person choose one of the options, under their labels if they have some.
fn prompt_option(question: &str, options: &[String], labels: &[String]) -> Result<Value, CommandError> {
    let shown = if labels.len() == options.len() { labels } else { options };
    let chosen = prompt_choice(question, shown)?;
    Ok(options[chosen].as_str().into())
}

/// Reads items, one per line, until an empty line.
fn prompt_list(question: &str) -> Result<Value, CommandError> {
    let mut items = Vec::new();
    loop {
        let item = prompt_line(question, Some("one item on each line; an empty line ends the list"))?;
        if item.is_empty() {
            return Ok(Value::list(items));
        }
        items.push(item.into());
    }
}

fn resolve_text(line: String) -> Result<Value, CommandError> {
    match line.strip_prefix('@') {
        Some(file) => {
            let advice = "after an @, the path of a text file is expected";
            Ok(inputs::read_text_file(Path::new(file), "file", advice)?.into())
        }
        None => Ok(line.into()),
    }
}

/// Prompts for one line of text that is not empty.
fn prompt_value(question: &str, help: Option<&str>) -> Result<String, CommandError> {
    prompt_text(question, help, Some(check_filled))
}

fn check_filled(text: &str) -> Option<&'static str> {
    text.trim().is_empty().then_some("a value is required; Esc ends the command")
}

fn check_number(text: &str) -> Option<&'static str> {
    Number::parse(text.trim()).is_none().then_some("not a number")
}

/// Prompts for one line of text.
pub(crate) fn prompt_line(question: &str, help: Option<&str>) -> Result<String, CommandError> {
    prompt_text(question, help, None)
}

/// Prompts for the answer to the question of a run; `None` if the person gives none.
pub(crate) fn prompt_answer(question: &AskRequest) -> Option<String> {
    let kind = question.schema.as_ref().and_then(|schema| schema.get("type")?.as_str());
    let choice = if kind == Some("boolean") { " (yes/no)" } else { "" };
    prompt_text(&format!("{}{choice}", question.question), Some("Esc leaves the run waiting"), None).ok()
}

/// Adds to an error how an input is given without a prompt.
fn advise_option(input: &str, error: CommandError) -> CommandError {
    match error.code {
        Code::UsageInvalid => {
            let message = format!("{}; an input can also be given with -i {input}=VALUE", error.message);
            CommandError { message, ..error }
        }
        _ => error,
    }
}
