//! Displays a run while it is running: one line per step with spinner, time, tokens and streamed text; plain lines if
//! stderr is not a terminal.

use std::collections::HashMap;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use flowloom_app::runs::watch::Watcher;
use flowloom_core::event::{AfterFailure, Event, Record};
use flowloom_core::path::Path;
use flowloom_core::state::Phase;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::cli::OutputArgs;
use crate::terminal::report::{clip, duration, sign};

/// Number of columns of streamed text that a line displays.
const TAIL: usize = 60;

/// Displays one line per step on stderr.
pub(crate) struct Screen {
    events: bool,
    stream: bool,
    quiet: bool,
    bars: Option<MultiProgress>,
    lines: HashMap<Path, Line>,
}

struct Line {
    bar: Option<ProgressBar>,
    target: String,
    started: u64,
    tail: String,
}

impl Screen {
    pub(crate) fn new(output: &OutputArgs, quiet: bool) -> Screen {
        let is_terminal = std::io::stderr().is_terminal();
        Screen {
            events: output.events,
            stream: !output.no_stream,
            quiet,
            bars: (is_terminal && !quiet).then(MultiProgress::new),
            lines: HashMap::new(),
        }
    }
}

impl Watcher for Screen {
    fn event(&mut self, record: &Record) {
        if self.events
            && let Ok(line) = serde_json::to_string(record)
        {
            println!("{line}");
        }
        if self.quiet {
            return;
        }
        match &record.event {
            Event::StepStarted { target, .. } => self.started(record, target),
            Event::StepFinished { usage, .. } => {
                let tokens = usage.map(|usage| format!("{} tok", usage.input_tokens + usage.output_tokens));
                self.ended(record, Phase::Finished, tokens.unwrap_or_default());
            }
            Event::StepFailed { error, then } => {
                let then = match then {
                    AfterFailure::Fail => "",
                    AfterFailure::Continue => " (run continues)",
                    AfterFailure::Retry(_) => " (retrying)",
                };
                self.ended(record, Phase::Failed, format!("{}: {}{then}", error.code, clip(&error.message, 100)));
            }
            Event::StepSkipped { reason } => {
                self.say(&format!("{} {}  {reason}", sign(Phase::Skipped), record.path));
            }
            Event::StepAborted { reason } => self.ended(record, Phase::Aborted, reason.clone()),
            // The command prints the question together with how to answer it.
            Event::Asked(_) => self.ended(record, Phase::Waiting, "waiting for an answer".to_owned()),
            _ => {}
        }
    }

    fn delta(&mut self, path: &Path, attempt: u32, text: &str) {
        if self.events {
            let line = serde_json::json!({"event": "delta", "path": path, "attempt": attempt, "text": text});
            println!("{line}");
        }
        if !self.stream {
            return;
        }
        let Some(line) = self.lines.get_mut(path) else { return };
        line.tail.extend(text.chars().map(|c| if c.is_control() { ' ' } else { c }));
        let length = line.tail.chars().count();
        if length > TAIL {
            line.tail = line.tail.chars().skip(length - TAIL).collect();
        }
        if let Some(bar) = &line.bar {
            bar.set_message(format!("{path}  {}  {}", line.target, line.tail));
        }
    }

    fn close(&mut self) {
        for bar in std::mem::take(&mut self.lines).into_values().filter_map(|line| line.bar) {
            bar.finish_and_clear();
        }
    }
}

impl Screen {
    fn started(&mut self, record: &Record, target: &str) {
        let target = clip(target, 48);
        let bar = self.bars.as_ref().map(|bars| {
            let bar = bars.add(ProgressBar::new_spinner());
            let style = ProgressStyle::with_template("{spinner} {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.set_message(format!("{}  {target}", record.path));
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        self.lines.insert(record.path.clone(), Line { bar, target, started: record.at, tail: String::new() });
    }

    fn ended(&mut self, record: &Record, phase: Phase, note: String) {
        let Some(line) = self.lines.remove(&record.path) else { return };
        if let Some(bar) = &line.bar {
            bar.finish_and_clear();
        }
        let took = duration(record.at.saturating_sub(line.started));
        let text = match phase {
            Phase::Waiting => format!("{} {}  {note}", sign(phase), record.path),
            _ => format!("{} {}  {}  {took}  {note}", sign(phase), record.path, line.target),
        };
        self.say(text.trim_end());
    }

    fn say(&self, line: &str) {
        match &self.bars {
            // Printing through the bars keeps them below the printed lines.
            Some(bars) => {
                let _ = bars.println(line);
            }
            None => {
                let _ = writeln!(std::io::stderr(), "{line}");
            }
        }
    }
}
