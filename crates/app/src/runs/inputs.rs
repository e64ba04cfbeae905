//! Inputs, answers and budgets as people write them.

use std::collections::{BTreeSet, HashSet};

use flowloom_core::code::Code;
use flowloom_core::diagnostic::find_similar_name;
use flowloom_core::effect::AskRequest;
use flowloom_core::error::StepFailure;
use flowloom_core::json::parse_value;
use flowloom_core::limits::Limits;
use flowloom_core::plan::{InputKind, Inputs, Plan, list_read_names};
use flowloom_core::value::{Map, Value};

/// Converts typed text to an input kind: the text of a JSON array becomes a list where a list is expected.
pub fn coerce_to_kind(kind: &InputKind, typed: Value) -> Value {
    match (kind, typed.as_str().map(parse_value)) {
        (InputKind::List, Some(Ok(list @ Value::List(_)))) => list,
        _ => typed,
    }
}

/// A budget, or a part of it, cannot be parsed.
#[derive(Debug, thiserror::Error)]
pub enum InvalidBudget {
    /// It is not a limit.
    #[error("a budget is written as tokens=N,usd=N,steps=N,time=30s, not {0:?}")]
    Malformed(String),
    /// The same limit is given twice.
    #[error("the limit {0:?} is given twice in the budget; give it once")]
    Repeated(String),
}

/// Parses `tokens=N,usd=N,steps=N,time=30s` into the limits: at least one of them, and none twice. A time without a unit is
/// in seconds. Fails if the text is empty, or if a part is unknown, repeated or no number.
///
/// # Examples
///
/// ```
/// use flowloom_app::runs::inputs::parse_budget;
/// use flowloom_core::limits::Limits;
///
/// let mut limits = Limits::default();
/// parse_budget("tokens=2000,time=30s", &mut limits).expect("valid");
/// assert_eq!((limits.tokens, limits.time_ms), (Some(2_000), Some(30_000)));
/// ```
pub fn parse_budget(text: &str, limits: &mut Limits) -> Result<(), InvalidBudget> {
    let parts: Vec<&str> = text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    if parts.is_empty() {
        return Err(InvalidBudget::Malformed(text.to_owned()));
    }
    let mut given = BTreeSet::new();
    for part in parts {
        let invalid = || InvalidBudget::Malformed(part.to_owned());
        let (name, value) = part.split_once('=').ok_or_else(invalid)?;
        if !given.insert(name) {
            return Err(InvalidBudget::Repeated(name.to_owned()));
        }
        match name {
            "tokens" => limits.tokens = Some(value.parse().map_err(|_| invalid())?),
            "steps" => limits.steps = value.parse().map_err(|_| invalid())?,
            "time" => limits.time_ms = Some(parse_time_limit_ms(value).ok_or_else(invalid)?),
            "usd" => {
                let usd: f64 = value.parse().map_err(|_| invalid())?;
                if !(0.0..1e12).contains(&usd) {
                    return Err(invalid());
                }
                limits.micro_usd = Some((usd * 1e6).round() as u64);
            }
            _ => return Err(invalid()),
        }
    }
    Ok(())
}

/// The limits with the parts of a budget. They do not exceed the `configured` ones. Fails like [`parse_budget`].
pub fn narrow_by_budget(text: &str, mut limits: Limits, configured: &Limits) -> Result<Limits, InvalidBudget> {
    parse_budget(text, &mut limits)?;
    Ok(configured.narrow_to(&limits))
}

/// Parses the time limit of a run: a duration, or a number of seconds.
fn parse_time_limit_ms(text: &str) -> Option<u64> {
    parse_duration_ms(text).or_else(|| parse_duration_ms(&format!("{text}s")))
}

/// Parses `500ms`, `30s`, `5m`, `2h` or `30d` into milliseconds. A number without a unit is not valid: a person who
/// writes `30` for an age means days as likely as seconds.
pub fn parse_duration_ms(text: &str) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "ms" => 1.0,
        "s" => 1e3,
        "m" => 6e4,
        "h" => 3.6e6,
        "d" => 8.64e7,
        _ => return None,
    };
    Some((number.parse::<f64>().ok()? * factor) as u64)
}

/// Fails if a definition is a conversation, and the inputs name no message. A program may send one that is empty.
pub fn check_message(plan: &Plan, inputs: &Value) -> Result<(), StepFailure> {
    if !is_conversation(plan) || names_message(inputs, |_| true) {
        return Ok(());
    }
    let message = "there is no message to answer; give one as the input \"message\"";
    Err(StepFailure::new(Code::InputMissing, message))
}

/// The inputs that every conversation has.
const CONVERSATION_INPUTS: [&str; 2] = ["message", "messages"];

/// Fails if a definition is a conversation, and does nothing with an input that it is given.
pub fn check_conversation_inputs(plan: &Plan, inputs: &Map) -> Result<(), StepFailure> {
    // Functions receive all variables.
    if !is_conversation(plan) || !plan.functions.is_empty() {
        return Ok(());
    }
    let mut others = inputs.keys().filter(|name| !CONVERSATION_INPUTS.contains(&&***name)).peekable();
    if others.peek().is_none() {
        return Ok(());
    }
    let read: HashSet<_> = list_read_names(&plan.root).into_iter().collect();
    let Some(unknown) = others.find(|name| !read.contains(*name)) else { return Ok(()) };
    let message = match find_similar_name(unknown, CONVERSATION_INPUTS) {
        Some(meant) => format!("there is no input {unknown}; did you mean {meant}?"),
        None => format!("there is no input {unknown}; the inputs of a conversation are message and messages"),
    };
    Err(StepFailure::new(Code::InputInvalid, message))
}

/// Whether a definition is a conversation, and the inputs hold no message with a text.
pub fn lacks_message(plan: &Plan, inputs: &Value) -> bool {
    is_conversation(plan) && !names_message(inputs, |text| !text.trim().is_empty())
}

/// Whether a definition is a conversation, whose input is a message.
pub fn is_conversation(plan: &Plan) -> bool {
    plan.thread.is_some() && matches!(plan.inputs, Inputs::Named { .. })
}

/// Whether the inputs have messages, or a message whose text counts.
fn names_message(inputs: &Value, counts: impl Fn(&str) -> bool) -> bool {
    // Inputs of the wrong kind are refused when the run starts.
    let given = |name: &str| inputs.get(name).filter(|given| **given != Value::Null);
    (inputs.as_map().is_none() && *inputs != Value::Null)
        || given("message").is_some_and(|message| message.as_str().is_none_or(counts))
        || given("messages").is_some_and(|messages| messages.as_list().is_none_or(|list| !list.is_empty()))
}

/// Texts that count as agreement. A longer text, such as "yes, but later", does not.
const AGREEMENTS: [&str; 14] = [
    "yes",
    "y",
    "true",
    "ok",
    "okay",
    "yes please",
    "sure",
    "approve",
    "approved",
    "accept",
    "accepted",
    "agreed",
    "go ahead",
    "do it",
];

/// Texts that count as refusal.
const REFUSALS: [&str; 12] = [
    "no",
    "n",
    "false",
    "no thanks",
    "no thank you",
    "reject",
    "rejected",
    "deny",
    "denied",
    "decline",
    "declined",
    "refuse",
];

/// Converts a person's text to a value for the question's schema.
pub fn parse_answer(question: &AskRequest, text: &str) -> Value {
    let kind = question.schema.as_ref().and_then(|schema| schema.get("type")?.as_str().map(str::to_owned));
    match kind.as_deref() {
        None | Some("string") => text.into(),
        Some("boolean") => parse_decision(text).map_or_else(|| parse_json_or_text(text), Value::from),
        _ => parse_json_or_text(text),
    }
}

/// Whether a text agrees or refuses; `None` if it does neither, or adds more.
fn parse_decision(text: &str) -> Option<bool> {
    let words = text.split(|character: char| character.is_whitespace() || ",.!".contains(character));
    let message = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ").to_lowercase();
    match message.as_str() {
        message if AGREEMENTS.contains(&message) => Some(true),
        message if REFUSALS.contains(&message) => Some(false),
        _ => None,
    }
}

/// Parses JSON, or returns the text itself.
pub fn parse_json_or_text(text: &str) -> Value {
    parse_value(text).unwrap_or_else(|_| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_read() {
        let mut limits = Limits::default();
        parse_budget("tokens=500, usd=0.25,steps=3,time=1.5s", &mut limits).expect("valid");
        assert_eq!(
            (limits.tokens, limits.micro_usd, limits.steps, limits.time_ms),
            (Some(500), Some(250_000), 3, Some(1500))
        );
        parse_budget("time=90", &mut limits).expect("valid");
        assert_eq!(limits.time_ms, Some(90_000));
        assert!(parse_budget("tokens=-1", &mut limits).is_err());
        assert!(parse_budget("minutes=3", &mut limits).is_err());
        for text in ["", " , "] {
            assert!(parse_budget(text, &mut limits).is_err(), "{text:?}");
        }
        let twice = parse_budget("tokens=5,tokens=100000", &mut limits).expect_err("twice").to_string();
        assert_eq!(twice, "the limit \"tokens\" is given twice in the budget; give it once");
    }

    #[test]
    fn only_a_plain_yes_approves() {
        for (text, expected) in [
            ("Yes!", Some(true)),
            ("yes, please", Some(true)),
            (" Approve ", Some(true)),
            ("No.", Some(false)),
            ("rejected", Some(false)),
            ("yes, but not this one", None),
            ("no problem", None),
            ("yes no", None),
            ("", None),
        ] {
            assert_eq!(parse_decision(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_duration_has_a_unit() {
        assert_eq!(parse_duration_ms("30d"), Some(30 * 86_400_000));
        assert_eq!(parse_duration_ms("1.5s"), Some(1_500));
        for text in ["30", "", "d", "30 d", "-3s", "30days"] {
            assert_eq!(parse_duration_ms(text), None, "{text:?}");
        }
    }
}
