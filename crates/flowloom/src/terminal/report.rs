//! Runs as people read them in a terminal: times, signs, and the waterfall.

use std::fmt::Write as _;
use std::ops::Range;

use flowloom_app::times::format_time;
use flowloom_core::id::RunId;
use flowloom_core::plan::Plan;
use flowloom_core::state::{Phase, RunState, StepState};
use flowloom_core::status::Status;

use super::measure::{count_columns, pad_columns, take_columns};
use crate::print::is_control;
use crate::style::{Style, paint_text};

/// Formats a duration in milliseconds for people.
pub(crate) fn format_duration(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms}ms"),
        1_000..60_000 => format!("{:.1}s", ms as f64 / 1e3),
        _ => format!("{}m{:02}s", ms / 60_000, ms / 1000 % 60),
    }
}

/// Formats an age in milliseconds for people, in its largest unit.
pub(crate) fn format_age(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// The symbol of a step's phase, so that output never depends on colour.
pub(crate) fn phase_symbol(phase: Phase) -> &'static str {
    match phase {
        Phase::Finished => "✓",
        Phase::Failed => "✗",
        Phase::Skipped => "⤼",
        Phase::Reset => "↺",
        Phase::Aborted => "■",
        Phase::Waiting => "⏸",
        Phase::Uncertain => "?",
        Phase::Running => "…",
    }
}

/// The symbol of a step whose output was taken from the run that its run was forked from.
pub(crate) fn paint_reused() -> String {
    paint_text(Style::Dim, "⟲")
}

/// The symbol of a step in its colour.
fn paint_step(step: &StepState) -> String {
    if step.is_reused { paint_reused() } else { paint_phase(step.phase) }
}

/// The symbol of a phase in its colour.
pub(crate) fn paint_phase(phase: Phase) -> String {
    let style = match phase {
        Phase::Finished => Style::Good,
        Phase::Failed => Style::Bad,
        Phase::Waiting | Phase::Uncertain => Style::Attention,
        Phase::Skipped | Phase::Reset | Phase::Aborted | Phase::Running => Style::Dim,
    };
    paint_text(style, phase_symbol(phase))
}

/// The name of a status in its colour.
pub(crate) fn paint_status(status: &str) -> String {
    let style = match Status::parse(status) {
        Some(Status::Succeeded) => Style::Good,
        Some(Status::Waiting | Status::Uncertain | Status::Interrupted | Status::Quarantined) => Style::Attention,
        Some(Status::Queued | Status::Running) | None => Style::Dim,
        Some(_) => Style::Bad,
    };
    paint_text(style, status)
}

/// Maximum width of the bars of the waterfall, in columns.
const MAX_BAR_COLUMNS: usize = 32;
/// Width of the text around path, bar and detail, in columns.
const FIXED_COLUMNS: usize = 17;
/// Maximum width of a path, in columns.
const MAX_PATH_COLUMNS: usize = 36;
/// Width of a terminal in which paths and bars have their full widths.
const FULL_COLUMNS: usize = 100;

/// Renders a run as a text waterfall: one row per step, with bars on a common time axis. Rows are as wide as the terminal. If
/// it is none, nothing is cut.
pub(crate) fn render_waterfall(id: RunId, plan: &Plan, state: &RunState, columns: Option<usize>) -> String {
    let mut out = String::new();
    let end = state.steps().iter().filter_map(|step| step.finished_at).max().unwrap_or(state.created_at);
    let end = state.finished_at.unwrap_or(end).max(state.created_at + 1);
    let total = end - state.created_at;
    let _ = writeln!(
        out,
        "{id}  {}  {} ({})  {}",
        paint_status(state.status.name()),
        clean_line(&plan.name),
        plan.format.name(),
        format_duration(total)
    );
    let visible: Vec<&StepState> = state.steps().iter().filter(|step| is_shown(step)).collect();
    // A narrow terminal has narrower paths and bars.
    let narrow = |full: usize| full * columns.unwrap_or(FULL_COLUMNS).min(FULL_COLUMNS) / FULL_COLUMNS;
    let bar_columns = narrow(MAX_BAR_COLUMNS);
    let max_path = columns.map_or(usize::MAX, |_| narrow(MAX_PATH_COLUMNS));
    let width = visible.iter().map(|step| count_columns(step.path.as_str())).max().unwrap_or(0).min(max_path);
    for step in visible {
        let path = pad_columns(&truncate_line(step.path.as_str(), max_path.saturating_sub(1).max(1)), width);
        let bar = render_bar(step, state.created_at..end, bar_columns as u64);
        let took =
            step.finished_at.map_or_else(|| "…".to_owned(), |at| format_duration(at.saturating_sub(step.started_at)));
        let detail = match columns {
            Some(columns) => {
                let room = columns.saturating_sub(width + bar_columns + FIXED_COLUMNS).max(1);
                truncate_line(&render_detail(step, truncate_line), room)
            }
            // Piped output may be searched for an address or an error.
            None => render_detail(step, |text, _| clean_line(text)),
        };
        let line = format!("{} {path} ▏{bar}▕ {took:>7}  {detail}", paint_step(step));
        let _ = writeln!(out, "{}", line.trim_end());
    }
    for end in &state.earlier_ends {
        let error = end.error.as_ref().map(|error| format!(", {}: {}", error.code, error.message)).unwrap_or_default();
        let place = end.failed.as_ref().map(|path| format!(" at {path}")).unwrap_or_default();
        // The sender of the command in a terminal is its name.
        let by = Some(&end.reopened_by).filter(|by| *by != "retry").map(|by| format!(" by {by}")).unwrap_or_default();
        let _ = writeln!(out, "↺ ended as {}{place}{error}; then retried{by}", end.status.name());
    }
    let usage = &state.usage;
    if usage.input_tokens + usage.output_tokens > 0 {
        let _ = writeln!(out, "tokens: {} in, {} out", usage.input_tokens, usage.output_tokens);
    }
    if let Some(error) = &state.error {
        let place = state.failed.as_ref().map(|path| format!(" at {path}")).unwrap_or_default();
        let _ = writeln!(out, "{}{place}: {}", error.code, error.message);
    }
    out
}

/// Composite steps that finished have no row of their own.
fn is_shown(step: &StepState) -> bool {
    step.kind.is_some() || !matches!(step.phase, Phase::Finished)
}

fn render_bar(step: &StepState, time: Range<u64>, columns: u64) -> String {
    let Range { start, end } = time;
    let total = (end - start).max(1);
    let column = |at: u64| (at.saturating_sub(start) * columns / total).min(columns);
    let from = column(step.started_at).min(columns - 1);
    let to = column(step.finished_at.unwrap_or(end)).max(from + 1);
    format!("{}{}{}", " ".repeat(from as usize), "━".repeat((to - from) as usize), " ".repeat((columns - to) as usize))
}

/// A summary of a step. `shorten` shortens a text to a number of columns.
fn render_detail(step: &StepState, shorten: fn(&str, usize) -> String) -> String {
    let mut parts = Vec::new();
    // The target of a question is its text, which is printed below.
    parts.extend(step.target.as_deref().filter(|_| step.question.is_none()).map(|target| shorten(target, 40)));
    if step.attempts > 1 {
        parts.push(format!("attempt {}", step.attempts));
    }
    if let Some(usage) = &step.usage {
        parts.push(format!("{} tok", usage.input_tokens + usage.output_tokens));
    }
    if let (Phase::Failed, Some(error)) = (step.phase, &step.error) {
        parts.push(format!("{}: {}", error.code, shorten(&error.message, 60)));
    }
    if let Some(question) = &step.question {
        parts.push(format!("asks: {}", shorten(&question.question, 60)));
        parts.extend(question.expires_at.map(|at| format!("open until {}", format_time(at))));
    }
    parts.join("  ")
}

/// A text on one line, without control characters.
pub(crate) fn clean_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || is_control(c) { ' ' } else { c }).collect()
}

/// Truncates a text to `width` columns and an ellipsis, on one line and without control characters.
pub(crate) fn truncate_line(text: &str, width: usize) -> String {
    let clean = clean_line(text);
    match take_columns(&clean, width) {
        start if start.len() < clean.len() => format!("{start}…"),
        _ => clean,
    }
}
