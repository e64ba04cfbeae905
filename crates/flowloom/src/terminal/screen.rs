//! Displays a run while it is running: one line per step with spinner, time, tokens and streamed text; plain lines if
//! stderr is not a terminal.

use std::collections::HashMap;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use flowloom_app::runs::watch::Watcher;
use flowloom_core::event::{AfterFailure, Event, Record, WARNING_PROGRESS};
use flowloom_core::path::Path;
use flowloom_core::state::Phase;
use flowloom_core::value::Value;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::cli::OutputArgs;
use crate::print::{is_control, replace_controls};
use crate::style::{Style, apply_styles, colors_stderr, paint_text};
use crate::terminal::report::{format_duration, paint_phase, truncate_line};
use crate::terminal::width::stderr_columns;

/// Displays one line per step on stderr.
pub(crate) struct ProgressScreen {
    events: bool,
    stream: bool,
    quiet: bool,
    bars: Option<MultiProgress>,
    lines: HashMap<Path, StepLine>,
}

struct StepLine {
    bar: Option<ProgressBar>,
    target: String,
    started: u64,
    tail: String,
}

impl ProgressScreen {
    pub(crate) fn new(output: &OutputArgs, quiet: bool) -> ProgressScreen {
        let is_terminal = std::io::stderr().is_terminal();
        ProgressScreen {
            events: output.events,
            stream: !output.no_stream,
            quiet,
            bars: (is_terminal && !quiet).then(MultiProgress::new),
            lines: HashMap::new(),
        }
    }
}

impl Watcher for ProgressScreen {
    fn on_event(&mut self, record: &Record) {
        if self.events
            && let Ok(line) = serde_json::to_string(record)
        {
            println!("{line}");
        }
        if self.quiet {
            return;
        }
        match &record.event {
            Event::StepStarted { target, .. } => self.start_step(record, target),
            Event::StepFinished { usage, .. } => {
                let tokens = usage.map(|usage| format!("{} tok", usage.input_tokens + usage.output_tokens));
                self.end_step(record, Phase::Finished, tokens.unwrap_or_default());
            }
            Event::StepFailed { error, then } => {
                let then = match then {
                    AfterFailure::Fail => "",
                    AfterFailure::Continue => " (run continues)",
                    AfterFailure::Retry(_) => " (retrying)",
                };
                self.end_step(
                    record,
                    Phase::Failed,
                    format!("{}: {}{then}", error.code, truncate_line(&error.message, 100)),
                );
            }
            Event::StepSkipped { reason } => {
                self.print_line(&format!("{} {}  {reason}", paint_phase(Phase::Skipped), record.path));
            }
            Event::RunReopened { from, reset, .. } => {
                let from = from.as_ref().map(|from| format!(" from {from}")).unwrap_or_default();
                let line = format!("{} retrying{from}: {} steps run again", paint_phase(Phase::Reset), reset.len());
                self.print_line(&line);
            }
            Event::Progress { name, data } if name == WARNING_PROGRESS => self.print_warnings(record, data),
            Event::StepAborted { reason } => self.end_step(record, Phase::Aborted, reason.clone()),
            // The command prints the question together with how to answer it.
            Event::Asked(_) => self.end_step(record, Phase::Waiting, "waiting for an answer".to_owned()),
            _ => {}
        }
    }

    fn on_delta(&mut self, path: &Path, attempt: u32, text: &str) {
        if self.events {
            let line = serde_json::json!({"event": "delta", "path": path, "attempt": attempt, "text": text});
            println!("{line}");
        }
        if !self.stream {
            return;
        }
        let Some(line) = self.lines.get_mut(path) else { return };
        line.tail.extend(text.chars().map(|c| if c.is_control() || is_control(c) { ' ' } else { c }));
        let head = format!("{path}  {}  ", line.target);
        // The spinner takes two columns, and a full line would wrap.
        let room = stderr_columns().unwrap_or_default().saturating_sub(head.chars().count() + 3);
        let length = line.tail.chars().count();
        let shown = match length > room {
            true => {
                line.tail = line.tail.chars().skip(length - room).collect();
                format!("…{}", line.tail.chars().skip(1).collect::<String>())
            }
            false => line.tail.clone(),
        };
        if let Some(bar) = &line.bar {
            bar.set_message(head + &shown);
        }
    }

    fn on_close(&mut self) {
        for bar in std::mem::take(&mut self.lines).into_values().filter_map(|line| line.bar) {
            bar.finish_and_clear();
        }
    }
}

impl ProgressScreen {
    fn start_step(&mut self, record: &Record, target: &str) {
        let target = truncate_line(target, 48);
        let bar = self.bars.as_ref().map(|bars| {
            let bar = bars.add(ProgressBar::new_spinner());
            let style = ProgressStyle::with_template("{spinner} {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.set_message(format!("{}  {target}", record.path));
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        self.lines.insert(record.path.clone(), StepLine { bar, target, started: record.at, tail: String::new() });
    }

    fn end_step(&mut self, record: &Record, phase: Phase, note: String) {
        let Some(line) = self.lines.remove(&record.path) else { return };
        if let Some(bar) = &line.bar {
            bar.finish_and_clear();
        }
        let took = format_duration(record.at.saturating_sub(line.started));
        let text = match phase {
            Phase::Waiting => format!("{} {}  {note}", paint_phase(phase), record.path),
            _ => format!("{} {}  {}  {took}  {note}", paint_phase(phase), record.path, line.target),
        };
        self.print_line(text.trim_end());
    }

    /// Prints what a step reports about its request.
    fn print_warnings(&self, record: &Record, data: &Value) {
        let messages = data.as_map().and_then(|data| data.get("messages")).and_then(Value::as_list).unwrap_or_default();
        for message in messages.iter().filter_map(Value::as_str) {
            let mark = paint_text(Style::Attention, "!");
            self.print_line(&format!("{mark} {}  {}", record.path, replace_controls(message)));
        }
    }

    fn print_line(&self, line: &str) {
        let line = apply_styles(line, colors_stderr());
        match &self.bars {
            // Printing through the bars keeps them below the printed lines.
            Some(bars) => {
                let _ = bars.println(&line);
            }
            None => {
                let _ = writeln!(std::io::stderr(), "{line}");
            }
        }
    }
}
