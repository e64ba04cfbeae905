//! Breakpoints: lines, with conditions over the variables, numbers of hits, and messages that are logged instead of stopping.

use std::collections::HashMap;

use flowloom_app::runs::playback::{Playback, Stop};
use flowloom_core::value::Value;
use flowloom_formats::markdown::VariableExpression;
use serde_json::Value as Json;

use super::values::show_value;

/// A breakpoint.
pub(super) struct Breakpoint {
    /// Its line, from 1.
    pub(super) line: usize,
    condition: Option<Condition>,
    hits: Option<HitCondition>,
    /// The parts of the message that is logged; `None` if the run stops.
    message: Option<Vec<MessagePart>>,
    /// Whether its condition holds, by the run and the number of records before the stop.
    known: HashMap<(String, usize), bool>,
}

struct Condition {
    source: String,
    expression: VariableExpression,
}

/// Which of the hits of a breakpoint count.
#[derive(Clone, Copy)]
struct HitCondition {
    comparison: Comparison,
    number: u64,
}

#[derive(Clone, Copy)]
enum Comparison {
    Equal,
    Above,
    AtLeast,
    Below,
    AtMost,
    MultipleOf,
}

/// A part of a logged message.
enum MessagePart {
    Text(String),
    Expression(VariableExpression),
}

/// The effect of breakpoints at a stop.
#[derive(Default)]
pub(super) struct Hit {
    /// Whether the run stops.
    pub(super) stops: bool,
    /// Lines for the console.
    pub(super) output: Vec<String>,
}

impl Breakpoint {
    /// Reads a breakpoint in the form of the protocol; `None` without a line. Fails with the reason if its condition or its
    /// message cannot be used.
    pub(super) fn parse(given: &Json) -> Option<Result<Breakpoint, String>> {
        let line = usize::try_from(given["line"].as_u64()?).ok()?;
        let text = |key: &str| given[key].as_str().map(str::trim).filter(|text| !text.is_empty());
        let parse = || {
            let condition = text("condition").map(Condition::parse).transpose()?;
            let hits = text("hitCondition").map(HitCondition::parse).transpose()?;
            let message = text("logMessage").map(parse_message).transpose()?;
            Ok(Breakpoint { line, condition, hits, message, known: HashMap::new() })
        };
        Some(parse())
    }

    /// The effect of the breakpoint at the last of the stops on its line so far.
    async fn decide_hit(&mut self, playback: &Playback, so_far: &[&Stop]) -> Hit {
        let mut hit = Hit::default();
        let Some((stop, before)) = so_far.split_last() else { return hit };
        if !self.meets_condition(playback, stop, &mut hit.output).await {
            return Hit::default();
        }
        if let Some(condition) = self.hits {
            let mut count = 1;
            for earlier in before {
                count += u64::from(self.meets_condition(playback, earlier, &mut Vec::new()).await);
            }
            if !condition.counts_hit(count) {
                return Hit::default();
            }
        }
        match &self.message {
            Some(parts) => hit.output.push(write_message(parts, playback, stop).await),
            None => hit.stops = true,
        }
        hit
    }

    /// Whether the condition holds at a stop. One that cannot be evaluated holds, so that it is noticed.
    async fn meets_condition(&mut self, playback: &Playback, stop: &Stop, output: &mut Vec<String>) -> bool {
        let Some(condition) = &self.condition else { return true };
        let key = (playback.run_id(), stop.records);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let holds = match playback.evaluate_at(stop, &condition.expression).await {
            Ok(value) => value.is_some_and(|value| value.is_truthy()),
            Err(error) => {
                output.push(format!("the condition {} has no value: {}", condition.source, error.message));
                true
            }
        };
        self.known.insert(key, holds);
        holds
    }
}

/// The combined effect of all breakpoints at a stop. `so_far` are the stops on its line, up to the stop itself.
pub(super) async fn hit_breakpoints(breakpoints: &mut [&mut Breakpoint], playback: &Playback, so_far: &[&Stop]) -> Hit {
    let mut all = Hit::default();
    for breakpoint in breakpoints {
        let hit = breakpoint.decide_hit(playback, so_far).await;
        all.stops |= hit.stops;
        all.output.extend(hit.output);
    }
    all
}

impl Condition {
    fn parse(source: &str) -> Result<Condition, String> {
        let expression = VariableExpression::parse(source).map_err(|reason| format!("the condition: {reason}"))?;
        Ok(Condition { source: source.to_owned(), expression })
    }
}

impl HitCondition {
    fn parse(text: &str) -> Result<HitCondition, String> {
        let digits = text.find(|c: char| c.is_ascii_digit()).unwrap_or(text.len());
        let (operator, number) = text.split_at(digits);
        let comparison = match operator.trim() {
            "" | "=" | "==" | "===" => Some(Comparison::Equal),
            ">" => Some(Comparison::Above),
            ">=" => Some(Comparison::AtLeast),
            "<" => Some(Comparison::Below),
            "<=" => Some(Comparison::AtMost),
            "%" => Some(Comparison::MultipleOf),
            _ => None,
        };
        match (comparison, number.trim().parse()) {
            (Some(comparison), Ok(number)) if number > 0 => Ok(HitCondition { comparison, number }),
            _ => Err(format!("{text:?} is not a number of hits: write a number such as 3, or >= 3, or % 2")),
        }
    }

    /// Whether the hit with this number, from 1, counts.
    fn counts_hit(self, hit: u64) -> bool {
        match self.comparison {
            Comparison::Equal => hit == self.number,
            Comparison::Above => hit > self.number,
            Comparison::AtLeast => hit >= self.number,
            Comparison::Below => hit < self.number,
            Comparison::AtMost => hit <= self.number,
            Comparison::MultipleOf => hit.is_multiple_of(self.number),
        }
    }
}

/// The parts of a message: texts, and expressions in braces.
fn parse_message(text: &str) -> Result<Vec<MessagePart>, String> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some(start) = rest.find('{') {
        let Some(end) = find_closing_brace(&rest[start..]) else {
            return Err(format!("the message: the brace before {:?} is not closed", &rest[start + 1..]));
        };
        let expression = VariableExpression::parse(rest[start + 1..start + end].trim());
        let expression = expression.map_err(|reason| format!("the message: {reason}"))?;
        parts.push(MessagePart::Text(rest[..start].to_owned()));
        parts.push(MessagePart::Expression(expression));
        rest = &rest[start + end + 1..];
    }
    parts.push(MessagePart::Text(rest.to_owned()));
    Ok(parts)
}

/// The place of the brace that closes the one with which a text begins. Braces can contain others.
fn find_closing_brace(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return Some(at),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

async fn write_message(parts: &[MessagePart], playback: &Playback, stop: &Stop) -> String {
    let mut text = String::new();
    for part in parts {
        match part {
            MessagePart::Text(part) => text.push_str(part),
            MessagePart::Expression(expression) => match playback.evaluate_at(stop, expression).await {
                Ok(Some(Value::String(value))) => text.push_str(&value),
                Ok(Some(value)) => text.push_str(&show_value(&value)),
                Ok(None) => text.push_str("undefined"),
                Err(error) => text.push_str(&format!("({})", error.message)),
            },
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hit_conditions_count_hits() {
        let counted = |text: &str| {
            let condition = HitCondition::parse(text).expect("a condition");
            (1..=6).filter(|hit| condition.counts_hit(*hit)).collect::<Vec<u64>>()
        };
        assert_eq!(counted("3"), [3]);
        assert_eq!(counted("== 3"), [3]);
        assert_eq!((counted(">4"), counted(">= 5")), (vec![5, 6], vec![5, 6]));
        assert_eq!((counted("< 3"), counted("<=2")), (vec![1, 2], vec![1, 2]));
        assert_eq!(counted("% 2"), [2, 4, 6]);
        for text in ["many", "0", "!= 3", "3 times"] {
            assert!(HitCondition::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_evaluated_is_refused() {
        let refuse = |key: &str, text: &str| {
            Breakpoint::parse(&json!({"line": 1, key: text})).expect("a line").err().unwrap_or_default()
        };
        assert!(refuse("condition", "n >").starts_with("the condition: this is not a JavaScript expression"));
        assert!(refuse("hitCondition", "many").contains("is not a number of hits"));
        assert!(refuse("logMessage", "n is {n").contains("is not closed"));
        assert!(refuse("logMessage", "n is {n +}").starts_with("the message: this is not"));
        assert_eq!(refuse("logMessage", "n is {n}, and {({a: 1}).a}"), "");
        assert_eq!(refuse("condition", "  "), "", "an editor sends what was removed");
        assert!(Breakpoint::parse(&json!({})).is_none());
    }
}
