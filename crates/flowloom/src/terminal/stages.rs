//! Displays an authoring run in the terminal: one line per result of a stage, and a spinner for the current operation.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use flowloom_app::authoring::AuthoringEvents;
use flowloom_app::authoring::agentflow_event::AgentFlowEvent;
use flowloom_app::runs::watch::Watcher;
use flowloom_core::event::Record;
use flowloom_core::value::Value;
use indicatif::{ProgressBar, ProgressStyle};

use crate::terminal::report::truncate_line;
use crate::terminal::width::{stderr_columns, wrap_hanging};

/// Maximum displayed width of text from models and errors, in columns.
const MAX_TEXT_COLUMNS: usize = 140;

/// The column in which the result of a stage starts.
const RESULT_COLUMN: usize = 13;

/// Displays an authoring run while it is running.
pub(crate) struct StageDisplay {
    events: AuthoringEvents,
    bar: Option<ProgressBar>,
}

impl StageDisplay {
    pub(crate) fn new() -> StageDisplay {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            let style = ProgressStyle::with_template("{spinner} {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        StageDisplay { events: AuthoringEvents::default(), bar }
    }

    fn print_event(&self, event: &AgentFlowEvent) {
        if let Some(line) = render_event(event) {
            // In a full line, the cursor would be in the next one.
            let line = match stderr_columns() {
                Some(columns) => wrap_hanging(&line, columns - 1, RESULT_COLUMN),
                None => line,
            };
            match &self.bar {
                Some(bar) => bar.println(line),
                None => {
                    let _ = writeln!(std::io::stderr(), "{line}");
                }
            }
        }
        if let (Some(bar), Some(operation)) = (&self.bar, render_operation(event)) {
            bar.set_message(operation);
        }
    }
}

impl Watcher for StageDisplay {
    fn on_event(&mut self, record: &Record) {
        if let Some(event) = self.events.convert(record) {
            self.print_event(&event);
        }
    }

    fn on_close(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// The line to print for an event; `None` if it does not deserve one.
fn render_event(event: &AgentFlowEvent) -> Option<String> {
    let data = &event.data;
    let text = |key: &str| truncate_line(data.get(key).and_then(Value::as_str).unwrap_or_default(), MAX_TEXT_COLUMNS);
    Some(match &*event.name {
        "decompose_blocks" => format!("✓ decompose  needs {}", join_ids(data.get("blocks"), "suggested_id")),
        "search_found" if text("block_id") == text("suggested_id") => {
            format!("✓ search     {}: found", text("block_id"))
        }
        "search_found" => format!("✓ search     {}: matches existing block {}", text("suggested_id"), text("block_id")),
        "search_missing" => format!("· search     {}: must be created", text("suggested_id")),
        "stage" if text("stage") == "search" && text("message").contains("only") => {
            format!("! search     {}", text("message"))
        }
        "block_test_passed" => format!("✓ create     {}: tests passed", text("block_id")),
        "block_test_failed" if data.get("retry").is_some_and(Value::is_truthy) => {
            format!("✗ create     {}: test failed; retrying: {}", text("block_id"), text("error"))
        }
        "block_create_failed" => format!("✗ create     {}: failed: {}", text("block_id"), text("error")),
        "validation" if !data.get("valid").is_some_and(Value::is_truthy) => {
            format!("✗ {:<10} validation failed; retrying: {}", text("stage"), text("error"))
        }
        "complete" => format!("✓ wire       {}", render_usage(data)),
        _ => return None,
    })
}

/// The label of the operation in progress.
fn render_operation(event: &AgentFlowEvent) -> Option<String> {
    let text = |key: &str| event.data.get(key).and_then(Value::as_str).unwrap_or_default();
    match &*event.name {
        "stage" => Some(format!("{}: {}", text("stage"), text("message"))),
        "llm_prompt" => Some(format!("{}: asking the model", text("stage"))),
        "block_created" => Some(format!("create: trying {}", text("block_id"))),
        _ => None,
    }
}

fn join_ids(list: Option<&Value>, key: &str) -> String {
    let items = list.and_then(Value::as_list).unwrap_or_default();
    items.iter().filter_map(|item| item.get(key)?.as_str()).collect::<Vec<_>>().join(", ")
}

/// Summarises the pipeline and the tokens and cost of creating it.
fn render_usage(data: &Value) -> String {
    let pipeline = data.get("pipeline").unwrap_or(&Value::Null);
    let id = pipeline.get("id").and_then(Value::as_str).unwrap_or_default();
    let nodes = pipeline.get("nodes").and_then(Value::as_list).map_or(0, <[Value]>::len);
    let usage = data.get("usage").unwrap_or(&Value::Null);
    let tokens = |key: &str| usage.get(key).and_then(Value::as_i64).unwrap_or_default();
    let cost = match usage.get("cost_usd") {
        Some(Value::Number(cost)) if cost.as_f64() > 0.0 => format!(", ${}", cost.to_text()),
        _ => String::new(),
    };
    format!("{id}, {nodes} nodes ({} tokens in, {} out{cost})", tokens("input_tokens"), tokens("output_tokens"))
}
