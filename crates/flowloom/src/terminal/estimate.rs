//! Draws the worst case of a workflow.

use std::fmt::Write as _;

use flowloom_app::estimate::Estimate;
use flowloom_app::listing::count_noun;
use flowloom_app::typical_case::TypicalCase;
use flowloom_core::bound::Count;
use flowloom_core::plan::Plan;
use flowloom_models::MAX_CALL_ATTEMPTS;
use serde_json::json;

use super::report::{clean_line, format_duration};
use super::width::wrap_hanging;
use crate::style::{Style, paint_text};

/// Something without a bound.
pub(crate) struct OpenEnd {
    pub(crate) path: String,
    /// File, line and column; `None` for a step of an included definition.
    pub(crate) place: Option<String>,
    pub(crate) reason: String,
}

impl OpenEnd {
    pub(crate) fn to_json(&self) -> serde_json::Value {
        json!({"path": self.path, "place": self.place, "reason": self.reason})
    }
}

/// The column in which the figures of the worst case start.
const FIGURE_COLUMN: usize = 17;

/// Renders the worst case, what has no bound, and the typical case. On a terminal, lines are at most `columns` wide.
pub(crate) fn render_estimate(
    plan: &Plan,
    estimate: &Estimate,
    open_ends: &[OpenEnd],
    typical: Option<&TypicalCase>,
    columns: Option<usize>,
) -> String {
    let wrap = |text: String, hang| columns.map_or_else(|| text.clone(), |columns| wrap_hanging(&text, columns, hang));
    let worst_case = wrap(render_worst_case(plan, estimate), FIGURE_COLUMN);
    let mut rest = String::new();
    if !open_ends.is_empty() {
        rest += "\nWithout a bound:\n";
    }
    for end in open_ends {
        let place = end.place.as_ref().map(|place| format!("  {}", paint_text(Style::Dim, place)));
        let _ = writeln!(rest, "  {}{}\n    {}", end.path, place.unwrap_or_default(), end.reason);
    }
    if let Some(typical) = typical {
        let _ = writeln!(rest, "\n{}", describe_typical_case(typical));
    }
    worst_case + &wrap(rest, 4)
}

fn render_worst_case(plan: &Plan, estimate: &Estimate) -> String {
    let bound = &estimate.worst.bound;
    let mut out = format!("{} ({})\n\n", paint_text(Style::Heading, &clean_line(&plan.name)), plan.format.name());
    out += "In the worst case:\n";
    let mut row = |name: &str, text: &str| {
        let _ = writeln!(out, "  {name:<15}{text}");
    };
    for (model, call) in &bound.models {
        let tokens = format!("{} tokens in, {} out", show_count(call.input_tokens), show_count(call.output_tokens));
        row("model calls", &format!("{}  {model}  {tokens}", show_count(call.calls)));
    }
    if bound.models.is_empty() {
        row("model calls", "none");
    }
    row("cost", &show_cost(estimate));
    for ((method, host), count) in &bound.requests {
        let host = if host == "*" { "any host" } else { host };
        let method = if method == "*" { "any method" } else { method };
        row("requests", &format!("{}  {method} {host}", show_count(*count)));
    }
    if bound.redirects != Count::ZERO {
        row("redirects", &format!("{}  any host", show_count(bound.redirects)));
    }
    for (function, count) in &bound.functions {
        row("functions", &format!("{}  {function}", show_count(*count)));
    }
    for (name, count) in [("Python blocks", bound.blocks), ("writes", bound.writes), ("questions", bound.questions)] {
        if count != Count::ZERO {
            row(name, &show_count(count));
        }
    }
    let chain = bound.chain_ms.0.map_or_else(|| "unlimited".to_owned(), format_duration);
    row("longest chain", &format!("{chain}, without the time that people take"));
    let is_remote = |model: &String| !["scripted:", "local:"].iter().any(|here| model.starts_with(here));
    if bound.models.keys().any(is_remote) {
        let note = format!(
            "Calls that a provider refuses (429, 5xx) are sent up to {MAX_CALL_ATTEMPTS} times and count once."
        );
        let _ = writeln!(out, "{}", paint_text(Style::Dim, &note));
    }
    out
}

fn describe_typical_case(typical: &TypicalCase) -> String {
    let noun = if typical.runs == 1 { "the last run".to_owned() } else { format!("the last {} runs", typical.runs) };
    let cost = typical.micro_usd.map_or_else(|| "unknown cost".to_owned(), show_usd);
    let count = |number: u64, noun| count_noun(number as usize, noun);
    let requests = match typical.requests {
        0 => String::new(),
        requests => format!("{}, ", count(requests, "request")),
    };
    format!(
        "In {noun} (median): {}, {requests}{} + {} tokens, {cost}, {}",
        count(typical.model_calls, "model call"),
        typical.input_tokens,
        typical.output_tokens,
        format_duration(typical.duration_ms)
    )
}

fn show_count(count: Count) -> String {
    match count.0 {
        None => "unlimited".to_owned(),
        Some(number) => group_digits(number),
    }
}

fn show_cost(estimate: &Estimate) -> String {
    match estimate.total_micro_usd() {
        Some(Count(Some(micro))) => show_usd(micro),
        Some(Count(None)) => "unlimited".to_owned(),
        None => {
            let unknown = estimate.micro_usd.iter().filter(|(_, cost)| cost.is_none()).map(|(model, _)| model.as_str());
            format!("unknown: there is no price for {}", unknown.collect::<Vec<_>>().join(", "))
        }
    }
}

fn show_usd(micro: u64) -> String {
    match micro {
        0 => "$0".to_owned(),
        micro if micro < 10_000 => format!("${:.4}", micro as f64 / 1e6),
        micro => format!("${:.2}", (micro as f64 / 1e4).ceil() / 1e2),
    }
}

/// A number with its thousands apart.
fn group_digits(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!((group_digits(7), group_digits(1_234_567)), ("7".to_owned(), "1,234,567".to_owned()));
        assert_eq!((show_usd(0), show_usd(123), show_usd(123_456)), ("$0".into(), "$0.0001".into(), "$0.13".into()));
    }
}
