//! The steps of a run with what they sent and received, as people read them.

use std::fmt::Write as _;

use flowloom_app::runs::details::StepDetails;

use crate::terminal::measure::count_columns;
use crate::terminal::report::{format_duration, truncate_line};

/// How much of a step is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DetailLevel {
    /// One line of the request, and one of the result.
    Short,
    /// Everything.
    Full,
}

/// Renders steps one after the other.
pub(crate) fn render_details(steps: &[StepDetails], level: DetailLevel, columns: usize) -> String {
    let mut out = String::new();
    for step in steps.iter().filter(|step| is_shown(step)) {
        let _ = writeln!(out, "\n{}", render_title(step));
        for warning in &step.warnings {
            let _ = writeln!(out, "  ! {warning}");
        }
        let input = match level {
            DetailLevel::Short => step.describe_prompt(),
            DetailLevel::Full => step.describe_input(),
        };
        let parts = [("in", input), ("out", step.describe_output()), ("error", describe_error(step))];
        for (label, text) in parts.iter().filter_map(|(label, text)| Some((label, text.as_deref()?))) {
            match level {
                DetailLevel::Short => write_short(&mut out, label, text, columns),
                DetailLevel::Full => write_full(&mut out, label, text),
            }
        }
        if level == DetailLevel::Full {
            write_requests(&mut out, step);
        }
    }
    out
}

/// Composite steps have nothing of their own to show.
fn is_shown(step: &StepDetails) -> bool {
    step.kind.is_some() || step.reason.is_some() || step.error.is_some()
}

fn render_title(step: &StepDetails) -> String {
    let mut parts = vec![step.path.to_string()];
    if step.kind.as_deref() != Some("ask") {
        parts.extend(step.target.as_deref().map(|target| truncate_line(target, 48)));
    }
    match (&step.reason, step.finished_at) {
        (Some(reason), _) => parts.push(format!("{}: {reason}", step.phase)),
        (None, Some(end)) => parts.push(format_duration(end.saturating_sub(step.started_at))),
        (None, None) => parts.push(step.phase.to_owned()),
    }
    parts.extend(step.usage.map(|usage| format!("{} tokens in, {} out", usage.input_tokens, usage.output_tokens)));
    if step.requests.len() > 1 {
        parts.push(format!("{} attempts", step.requests.len()));
    }
    parts.join("  ")
}

fn describe_error(step: &StepDetails) -> Option<String> {
    step.error.as_ref().map(|error| format!("{}: {}", error.code, error.message))
}

fn write_short(out: &mut String, label: &str, text: &str, columns: usize) {
    let note = format!(" ({} characters)", text.chars().count());
    let room = columns.saturating_sub(8);
    let line = match count_columns(text) > room || text.trim_end().contains('\n') {
        true => format!("{}{note}", truncate_line(text.trim(), room.saturating_sub(note.len() + 1))),
        false => truncate_line(text.trim_end(), room),
    };
    let _ = writeln!(out, "  {label:<5} {line}");
}

fn write_full(out: &mut String, label: &str, text: &str) {
    let _ = writeln!(out, "  {label}:");
    for line in text.trim_end().lines() {
        let _ = writeln!(out, "    {line}");
    }
}

/// The requests as JSON, which shows options, headers and schemas.
fn write_requests(out: &mut String, step: &StepDetails) {
    for sent in &step.requests {
        let text = serde_json::to_string_pretty(&sent.to_json()).unwrap_or_default();
        let label = if step.requests.len() > 1 { format!("request {}", sent.attempt) } else { "request".to_owned() };
        write_full(out, &label, &text);
    }
}
