//! A run as the debugger plays it: its present stop, and what is shown there.

use std::path::{Path, PathBuf};

use flowloom_app::runs::playback::{Playback, Stop};
use flowloom_core::diagnostic::find_position;
use flowloom_core::json::parse_value;
use flowloom_core::path::Path as StepPath;
use flowloom_core::value::Value;
use serde_json::json;

use super::session::{Answer, THREAD};
use super::values::{ShownValues, show_value};

/// The number of the text of a definition that has changed since the run.
const RECORDED_SOURCE: u32 = 1;

/// The number of the group of variables at every stop.
const VARIABLES_GROUP: u64 = 1;

/// The run that is played.
pub(super) struct RecordedRun {
    pub(super) playback: Playback,
    /// The position of the present stop.
    pub(super) at: usize,
    /// The file of the definition, as the editor names it.
    pub(super) definition: PathBuf,
    pub(super) shown: ShownValues,
    /// New values of variables at the present stop.
    pub(super) changed: Vec<(String, Value)>,
    /// Whether the editor was told that the session is over. It is not, if it steps back then.
    is_over: bool,
}

/// Where a run goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Forwards,
    Backwards,
}

impl RecordedRun {
    /// A run at its first stop.
    pub(super) fn new(playback: Playback, definition: PathBuf) -> RecordedRun {
        let (shown, changed) = (ShownValues::default(), Vec::new());
        RecordedRun { playback, at: 0, definition, shown, changed, is_over: false }
    }

    /// Answers a request that does not need a run to go on.
    pub(super) async fn answer(&mut self, command: &str, arguments: &serde_json::Value) -> Answer {
        match command {
            "stepBack" => self.step(self.at.saturating_sub(1)),
            "pause" => self.stop_at(self.at, "pause"),
            "stackTrace" => Answer::new(self.list_frames()),
            "scopes" => self.list_scopes().await,
            "variables" => {
                let number = arguments["variablesReference"].as_u64().and_then(|number| usize::try_from(number).ok());
                Answer::new(json!({"variables": self.shown.list_group(number.unwrap_or_default())}))
            }
            "setVariable" => self.set_variable(arguments),
            "evaluate" => self.evaluate(arguments["expression"].as_str().unwrap_or_default()).await,
            "source" => Answer::new(json!({"content": self.playback.definition()})),
            other => Answer::refuse(format!("the debugger cannot {other}")),
        }
    }

    /// Notes a new value of a variable. It takes effect when the run goes on, in a fork of it.
    fn set_variable(&mut self, arguments: &serde_json::Value) -> Answer {
        let text = |key: &str| arguments[key].as_str().unwrap_or_default();
        if arguments["variablesReference"].as_u64() != Some(VARIABLES_GROUP) || self.present().span.is_none() {
            return Answer::refuse("only variables can be changed, and only before a step");
        }
        let (name, written) = (text("name").to_owned(), text("value"));
        if let Err(error) = self.playback.check_variable(self.present(), &name) {
            return Answer::refuse(error.to_string());
        }
        // What is no JSON is text.
        let value = parse_value(written).unwrap_or_else(|_| written.into());
        let shown = show_value(&value);
        self.changed.retain(|(known, _)| *known != name);
        self.changed.push((name, value));
        Answer::new(json!({"value": shown}))
    }

    /// The path of the present stop.
    pub(super) fn present_path(&self) -> StepPath {
        self.present().path.clone()
    }

    fn present(&self) -> &Stop {
        &self.playback.stops[self.at]
    }

    /// Stops somewhere. Past the end, the session is over, which is told once.
    pub(super) fn step(&mut self, to: usize) -> Answer {
        match to < self.playback.stops.len() {
            true => self.stop_at(to, "step"),
            false if self.is_over => Answer::refuse("the run is over: step back, or start the debugger again"),
            false => {
                self.is_over = true;
                Answer::new(json!({})).with_event("terminated", json!({}))
            }
        }
    }

    pub(super) fn stop_at(&mut self, at: usize, reason: &str) -> Answer {
        (self.at, self.is_over) = (at, false);
        // Values of an earlier stop are not asked for any more.
        self.shown = ShownValues::default();
        self.changed.clear();
        let body = json!({"reason": reason, "threadId": THREAD, "allThreadsStopped": true});
        Answer::new(json!({"allThreadsContinued": true})).with_event("stopped", body)
    }

    /// Whether the present stop is the last one that is known.
    pub(super) fn is_at_last(&self) -> bool {
        self.at + 1 >= self.playback.stops.len()
    }

    /// Whether a stop is on a line with a breakpoint.
    pub(super) fn is_hit(&self, at: usize, breakpoints: &[usize]) -> bool {
        let lines: Vec<usize> = breakpoints.iter().filter_map(|line| self.find_step_line(*line)).collect();
        self.find_line(&self.playback.stops[at]).is_some_and(|line| lines.contains(&line))
    }

    /// The next known stop with a breakpoint.
    pub(super) fn find_hit(&self, direction: Direction, breakpoints: &[usize]) -> Option<usize> {
        let is_hit = |at: &usize| self.is_hit(*at, breakpoints);
        match direction {
            Direction::Forwards => (self.at + 1..self.playback.stops.len()).find(is_hit),
            Direction::Backwards => (0..self.at).rev().find(is_hit),
        }
    }

    /// The first stop after the composite step in which the present one is.
    pub(super) fn find_after_parent(&self) -> usize {
        let parent = self.present().path.parent();
        let after = self.playback.stops.iter().enumerate().skip(self.at + 1);
        let is_outside = |stop: &Stop| !stop.path.is_within(&parent) || stop.path == parent;
        after.clone().find(|(_, stop)| is_outside(stop)).map_or(self.playback.stops.len() - 1, |(at, _)| at)
    }

    /// The line on which a step begins, from 1.
    fn find_line(&self, stop: &Stop) -> Option<usize> {
        Some(find_position(self.playback.definition(), stop.span?.start).line)
    }

    /// The first line of the innermost step of the run that a line belongs to.
    pub(super) fn find_step_line(&self, line: usize) -> Option<usize> {
        let text = self.playback.definition();
        let spans = self.playback.stops.iter().filter_map(|stop| stop.span);
        let lines = spans.map(|span| (find_position(text, span.start).line, find_position(text, span.end()).line));
        let around = lines.filter(|(first, last)| (*first..=*last).contains(&line));
        around.min_by_key(|(first, last)| last - first).map(|(first, _)| first)
    }

    /// The definition as the editor can open it: its file, or the recorded text if the file has changed since.
    fn describe_source(&self) -> serde_json::Value {
        let name = self.definition.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let written = std::fs::read_to_string(&self.definition).ok();
        match written.as_deref() == Some(self.playback.definition()) {
            true => json!({"name": name, "path": absolute_path(&self.definition).display().to_string()}),
            false => json!({"name": format!("{name} (as it was run)"), "sourceReference": RECORDED_SOURCE}),
        }
    }

    fn list_frames(&self) -> serde_json::Value {
        let stop = self.present();
        let position = stop.span.map(|span| find_position(self.playback.definition(), span.start));
        let mut frame = json!({
            "id": 1,
            "name": if stop.span.is_some() { format!("{} ({})", stop.title, stop.path.as_str()) } else { stop.title.clone() },
            "line": position.map_or(0, |position| position.line),
            "column": position.map_or(0, |position| position.column),
        });
        if position.is_some() {
            frame["source"] = self.describe_source();
        }
        json!({"stackFrames": [frame], "totalFrames": 1})
    }

    async fn list_scopes(&mut self) -> Answer {
        let stop = self.present().clone();
        let mut variables = self.playback.variables_at(&stop).await;
        for (name, value) in &self.changed {
            variables.iter_mut().filter(|(known, _)| known == name).for_each(|(_, old)| *old = value.clone());
        }
        // The variables have the first number, by which changes of them are recognised.
        self.shown = ShownValues::default();
        let state = self.playback.state_at(&stop);
        let usage = &state.usage;
        let text = |text: &str| Value::from(text);
        let steps = state.steps().iter().map(|step| {
            let value = match (&step.output, &step.error) {
                (Some(output), _) => output.clone(),
                (None, Some(error)) => text(&error.message),
                (None, None) => text(step.phase.name()),
            };
            (step.path.as_str().to_owned(), value)
        });
        let steps: Vec<(String, Value)> = steps.collect();
        let run = vec![
            ("id".to_owned(), text(&self.playback.run_id())),
            ("status".to_owned(), text(state.status.name())),
            ("input tokens".to_owned(), text(&usage.input_tokens.to_string())),
            ("output tokens".to_owned(), text(&usage.output_tokens.to_string())),
        ];
        let groups = [("Variables", variables), ("Steps", steps), ("Run", run)];
        let scopes = groups.map(|(name, values)| {
            json!({"name": name, "variablesReference": self.shown.add_group(values), "expensive": false})
        });
        Answer::new(json!({"scopes": scopes}))
    }

    /// The value of a variable, or of a field of it.
    async fn evaluate(&mut self, expression: &str) -> Answer {
        let stop = self.present().clone();
        let mut parts = expression.trim().trim_start_matches("${").trim_matches(['{', '}']).split('.');
        let name = parts.next().unwrap_or_default();
        let variables = self.playback.variables_at(&stop).await;
        let found = variables.into_iter().find(|(known, _)| known == name).map(|(_, value)| value);
        let value = parts.try_fold(found, |value, part| Some(value.and_then(|value| value.get(part).cloned())));
        match value.flatten() {
            Some(value) => {
                let shown = show_value(&value);
                Answer::new(json!({"result": shown, "variablesReference": self.shown.add_content(value)}))
            }
            None => Answer::refuse(format!("{expression} has no value here")),
        }
    }
}

/// A path from the root.
pub(super) fn absolute_path(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
