//! Displays a run while it is running: on stderr one line per step with spinner, time, tokens and the end of its text, or
//! plain lines if stderr is not a terminal; on stdout the answer as it is written, if stdout is a terminal.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use flowloom_app::listing::count_noun;
use flowloom_app::runs::watch::Watcher;
use flowloom_core::event::{AfterFailure, Event, Record, WARNING_PROGRESS};
use flowloom_core::path::Path;
use flowloom_core::plan::Plan;
use flowloom_core::state::{Phase, RunState, StepState};
use flowloom_core::value::Value;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::cli::OutputArgs;
use crate::print::{is_control, replace_controls};
use crate::style::{Style, apply_styles, colors_stderr, paint_text};
use crate::terminal::answer::{AnswerStream, StreamedText};
use crate::terminal::echo::{hide_typed_controls, show_typed_controls};
use crate::terminal::measure::{count_columns, fit_line, take_last_columns};
use crate::terminal::report::{format_duration, paint_phase, paint_reused, truncate_line};
use crate::terminal::width::stderr_columns;

/// Minimum width of a target that is shortened for the text after it, in columns.
const MIN_TARGET_COLUMNS: usize = 20;

/// Displays one line per step on stderr, and the answer on stdout.
pub(crate) struct ProgressScreen {
    events: bool,
    stream: bool,
    quiet: bool,
    answer: Option<AnswerStream>,
    bars: Option<MultiProgress>,
    lines: HashMap<Path, StepLine>,
    /// The paths of the steps around those whose failure was shown.
    around_failures: HashSet<String>,
    /// Whether the run begins with the record of another one, which may have the answers to its questions.
    is_fork: bool,
    /// Questions of a fork that are not answered yet.
    questions: Vec<Record>,
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
        if is_terminal && !quiet {
            hide_typed_controls();
        }
        ProgressScreen {
            events: output.events,
            stream: !output.no_stream,
            quiet,
            answer: None,
            bars: (is_terminal && !quiet).then(MultiProgress::new),
            lines: HashMap::new(),
            around_failures: HashSet::new(),
            is_fork: false,
            questions: Vec::new(),
        }
    }

    /// Streams the answer of a run of `plan` with these inputs to stdout, unless that prints something else.
    pub(crate) fn with_answer(mut self, plan: &Plan, inputs: &Value, streamed: StreamedText) -> ProgressScreen {
        if self.stream && !self.quiet && !self.events {
            self.answer = AnswerStream::open(plan, inputs, streamed);
        }
        self
    }
}

impl ProgressScreen {
    /// Shows the attempts of a recorded run that have no outcome: when the run is resumed, they are performed again without
    /// a further event.
    pub(crate) fn with_open_attempts(mut self, state: &RunState, now: u64) -> ProgressScreen {
        let is_open = |step: &&StepState| step.is_attempt_open() && step.question.is_none();
        for step in state.steps().iter().filter(|_| !self.quiet).filter(is_open).collect::<Vec<_>>() {
            self.start_step(&step.path, now, step.target.as_deref().unwrap_or_default());
        }
        self
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
        if matches!(record.event, Event::StepFinished { .. } | Event::StepFailed { .. } | Event::StepAborted { .. }) {
            self.questions.retain(|question| question.path != record.path);
        }
        match &record.event {
            Event::RunCreated(created) => self.is_fork = created.fork.is_some(),
            // A question is asked below the progress, when the run has stopped.
            Event::StepStarted { kind, .. } if kind == "ask" => self.add_line(&record.path, record.at, "", None),
            Event::StepStarted { target, .. } => self.start_step(&record.path, record.at, target),
            Event::StepFinished { reused: true, .. } => {
                self.lines.remove(&record.path);
                self.print_line(&format!("{} {}  reused", paint_reused(), record.path));
            }
            Event::StepFinished { usage, response, .. } => {
                let tokens = usage.map(|usage| format!("{} tok", usage.input_tokens + usage.output_tokens));
                self.end_step(record, Phase::Finished, tokens.unwrap_or_default());
                let warning = response.as_ref().and_then(|facts| facts.finish_reason?.describe_warning());
                warning.into_iter().for_each(|warning| self.print_warning(record, warning));
            }
            Event::StepFailed { error, then, .. } => {
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
                let verb = if reset.len() == 1 { "runs" } else { "run" };
                let steps = count_noun(reset.len(), "step");
                let line = format!("{} retrying{from}: {steps} {verb} again", paint_phase(Phase::Reset));
                self.print_line(&line);
            }
            Event::Progress { name, data } if name == WARNING_PROGRESS => self.print_warnings(record, data),
            Event::StepAborted { reason } => self.end_step(record, Phase::Aborted, reason.clone()),
            // The command prints the question together with how to answer it.
            Event::Asked(_) if self.is_fork => self.questions.push(record.clone()),
            Event::Asked(_) => self.show_question(record),
            _ => {}
        }
    }

    fn on_delta(&mut self, path: &Path, attempt: u32, text: &str) {
        if self.events {
            let line = serde_json::json!({"event": "delta", "path": path, "attempt": attempt, "text": text});
            println!("{line}");
        }
        self.show_open_questions();
        if !self.stream {
            return;
        }
        if self.answer.as_ref().is_some_and(|answer| answer.accepts(path)) {
            return self.write_answer(path, attempt, text);
        }
        let Some(line) = self.lines.get_mut(path) else { return };
        line.tail.extend(text.chars().map(|c| if c.is_control() || is_control(c) { ' ' } else { c }));
        let head = format!("{path}  {}  ", line.target);
        // The spinner takes two columns, and a full line would wrap.
        let room = stderr_columns().unwrap_or_default().saturating_sub(count_columns(&head) + 3);
        let shown = match count_columns(&line.tail) > room {
            true => {
                line.tail = take_last_columns(&line.tail, room).to_owned();
                format!("…{}", take_last_columns(&line.tail, room.saturating_sub(1)))
            }
            false => line.tail.clone(),
        };
        if let Some(bar) = &line.bar {
            bar.set_message(head + &shown);
        }
    }

    fn on_close(&mut self) {
        self.show_open_questions();
        self.clear_bars();
        self.end_answer();
        show_typed_controls();
    }
}

impl ProgressScreen {
    fn show_question(&mut self, record: &Record) {
        self.end_step(record, Phase::Waiting, "waiting for an answer".to_owned());
    }

    /// Shows the questions of a fork to which the other run had no answer: text arrives, or the run has stopped, so that
    /// nothing more is taken from its record.
    fn show_open_questions(&mut self) {
        for question in std::mem::take(&mut self.questions) {
            self.show_question(&question);
        }
    }

    fn write_answer(&mut self, path: &Path, attempt: u32, text: &str) {
        // A spinner would draw over the line that is written.
        self.clear_bars();
        if let Some(answer) = &mut self.answer {
            answer.write(path, attempt, text);
        }
    }

    /// Ends the answer that is being written, and prints the output that was held back meanwhile.
    fn end_answer(&mut self) {
        for line in self.answer.as_mut().map(AnswerStream::end).unwrap_or_default() {
            self.print_line(&line);
        }
    }

    fn clear_bars(&mut self) {
        for bar in self.lines.values_mut().filter_map(|line| line.bar.take()) {
            bar.finish_and_clear();
        }
    }

    fn start_step(&mut self, path: &Path, at: u64, target: &str) {
        let target = truncate_line(target, 48);
        let is_writing = self.answer.as_ref().is_some_and(AnswerStream::is_writing);
        let bar = self.bars.as_ref().filter(|_| !is_writing).map(|bars| {
            let bar = bars.add(ProgressBar::new_spinner());
            let style = ProgressStyle::with_template("{spinner} {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.set_message(format!("{path}  {target}"));
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        self.add_line(path, at, &target, bar);
    }

    fn add_line(&mut self, path: &Path, at: u64, target: &str, bar: Option<ProgressBar>) {
        let line = StepLine { bar, target: target.to_owned(), started: at, tail: String::new() };
        if let Some(bar) = self.lines.insert(path.clone(), line).and_then(|before| before.bar) {
            bar.finish_and_clear();
        }
    }

    fn end_step(&mut self, record: &Record, phase: Phase, note: String) {
        let line = self.lines.remove(&record.path);
        // A step can fail without an attempt in progress: its request could not be built, or its output is refused. The
        // failure of a step around others is theirs, which was shown.
        let is_known = record.attempt == 0 && self.around_failures.contains(record.path.as_str());
        if phase == Phase::Failed {
            self.around_failures.extend(record.path.ancestors().map(str::to_owned));
        }
        let Some(line) = line else {
            if phase == Phase::Failed && !is_known {
                self.print_line(&format!("{} {}  {note}", paint_phase(phase), record.path));
            }
            return;
        };
        if let Some(bar) = &line.bar {
            bar.finish_and_clear();
        }
        if self.answer.as_ref().is_some_and(|answer| answer.is_written_by(&record.path)) {
            self.end_answer();
        }
        let took = format_duration(record.at.saturating_sub(line.started));
        let text = match phase {
            Phase::Waiting => format!("{} {}  {note}", paint_phase(phase), record.path),
            _ => {
                let others = format!("x {}    {took}  {note}", record.path);
                let target = shorten_target(&line.target, others.trim_end());
                format!("{} {}  {target}  {took}  {note}", paint_phase(phase), record.path)
            }
        };
        self.print_line(text.trim_end());
    }

    /// Prints what a step reports about its request.
    fn print_warnings(&mut self, record: &Record, data: &Value) {
        let messages = data.as_map().and_then(|data| data.get("messages")).and_then(Value::as_list).unwrap_or_default();
        messages.iter().filter_map(Value::as_str).for_each(|message| self.print_warning(record, message));
    }

    fn print_warning(&mut self, record: &Record, message: &str) {
        let mark = paint_text(Style::Attention, "!");
        self.print_line(&format!("{mark} {}  {}", record.path, replace_controls(message)));
    }

    fn print_line(&mut self, line: &str) {
        if let Some(answer) = self.answer.as_mut().filter(|answer| answer.is_writing()) {
            return answer.hold_line(line.to_owned());
        }
        let line = match stderr_columns() {
            // In a full line, the cursor would be in the next one.
            Some(columns) => fit_line(line, columns - 1),
            None => line.to_owned(),
        };
        let line = apply_styles(&line, colors_stderr());
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

/// The target of a step as far as it fits next to the others of its line. What happened to a step matters more than its
/// whole address.
fn shorten_target<'a>(target: &'a str, others: &str) -> Cow<'a, str> {
    let Some(columns) = stderr_columns() else { return target.into() };
    let length = count_columns(target);
    let excess = (length + count_columns(others) + 1).saturating_sub(columns);
    match length.checked_sub(excess + 1) {
        Some(room) if excess > 0 && room >= MIN_TARGET_COLUMNS => {
            truncate_line(target.trim_end_matches('…'), room).into()
        }
        _ => target.into(),
    }
}
