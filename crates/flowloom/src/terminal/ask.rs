//! Prompts at the terminal for required inputs that were not given.

use std::io::IsTerminal as _;
use std::path::Path;

use flowloom_core::plan::{Input, InputKind, Inputs, Plan};
use flowloom_core::value::{Number, Value};
use inquire::validator::Validation;
use inquire::{Confirm, InquireError, Select, Text};

use crate::failure::Failure;
use crate::inputs;

/// Whether stdin and stderr are terminals, so that a person can answer prompts.
pub(crate) fn is_possible() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Returns the given inputs, completed with prompted values for required inputs that are missing.
pub(crate) fn missing(plan: &Plan, given: Value) -> Result<Value, Failure> {
    let (Inputs::Named { declared, .. }, Some(map)) = (&plan.inputs, given.as_map()) else { return Ok(given) };
    let mut map = map.clone();
    for input in declared.iter().filter(|input| input.required) {
        if !map.contains_key(input.name.as_str()) {
            map.insert(input.name.as_str().into(), ask(input)?);
        }
    }
    Ok(map.into())
}

fn ask(input: &Input) -> Result<Value, Failure> {
    let question = input.description.as_deref().unwrap_or(&input.name);
    match &input.kind {
        InputKind::Any | InputKind::Text => line(question, Some("@FILE takes the text of a file")).and_then(text),
        InputKind::Number => {
            let is_number = |text: &str| match Number::parse(text.trim()) {
                Some(_) => Ok(Validation::Valid),
                None => Ok(Validation::Invalid("not a number".into())),
            };
            Text::new(question).with_validator(is_number).prompt().map(Value::from).map_err(left)
        }
        InputKind::Boolean => Confirm::new(question).prompt().map(Value::from).map_err(left),
        InputKind::OneOf(options) => Select::new(question, options.clone()).prompt().map(Value::from).map_err(left),
        InputKind::File => {
            line(question, Some("the path of the file")).and_then(|path| inputs::read_blob(Path::new(&path)))
        }
        InputKind::List => list(question),
    }
}

/// Reads items, one per line, until an empty line.
fn list(question: &str) -> Result<Value, Failure> {
    let mut items = Vec::new();
    loop {
        let item = line(question, Some("one item on each line; an empty line ends the list"))?;
        if item.is_empty() {
            return Ok(Value::list(items));
        }
        items.push(item.into());
    }
}

fn text(line: String) -> Result<Value, Failure> {
    match line.strip_prefix('@') {
        Some(file) => Ok(inputs::read_file(Path::new(file))?.into()),
        None => Ok(line.into()),
    }
}

/// Prompts for one line of text.
pub(crate) fn line(question: &str, help: Option<&str>) -> Result<String, Failure> {
    let mut prompt = Text::new(question);
    prompt.help_message = help;
    prompt.prompt().map_err(left)
}

/// Maps a failed prompt to a usage error.
fn left(error: InquireError) -> Failure {
    match error {
        InquireError::OperationCanceled | InquireError::OperationInterrupted => {
            Failure::usage("the question was not answered; you can also pass inputs with -i name=value".to_owned())
        }
        other => Failure::usage(format!("the prompt failed: {other}; pass inputs with -i name=value")),
    }
}
