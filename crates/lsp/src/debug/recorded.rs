//! A run as the debugger plays it: its present stop, and the values shown there.

use std::path::{Path, PathBuf};

use flowloom_app::runs::playback::{Playback, Stop, VisibleScope};
use flowloom_core::diagnostic::find_position;
use flowloom_core::json::parse_value;
use flowloom_core::path::Path as StepPath;
use flowloom_core::value::Value;
use flowloom_formats::markdown::VariableExpression;
use serde_json::json;

use super::breakpoints::{Breakpoint, Hit, hit_breakpoints};
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
    /// The position of the last stop to go to. A new run that halts at a step has not come to those that start with it.
    last: usize,
    /// The file of the definition, as the editor names it.
    pub(super) definition: PathBuf,
    pub(super) shown: ShownValues,
    /// New values of variables at the present stop.
    pub(super) changed: Vec<(String, Value)>,
    /// Whether the editor was notified that the session is over. A step back then reopens the session.
    is_over: bool,
}

/// Where a run continues.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Forwards,
    Backwards,
}

impl RecordedRun {
    /// A run at its first stop.
    pub(super) fn new(playback: Playback, definition: PathBuf) -> RecordedRun {
        let (shown, changed) = (ShownValues::default(), Vec::new());
        let last = playback.stops.len() - 1;
        RecordedRun { playback, at: 0, last, definition, shown, changed, is_over: false }
    }

    /// Goes no further than to the step at which a new run halts. Returns its position.
    pub(super) fn end_at(&mut self, halted: &StepPath) -> usize {
        if let Some(position) = self.playback.stops.iter().rposition(|stop| stop.path == *halted) {
            self.last = position;
        }
        self.last
    }

    /// The position of the last stop to go to.
    pub(super) fn last_position(&self) -> usize {
        self.last
    }

    /// Answers a request that does not need a run to continue.
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
            "evaluate" => self.evaluate_expression(arguments["expression"].as_str().unwrap_or_default()).await,
            "source" => Answer::new(json!({"content": self.playback.definition()})),
            other => Answer::refuse(format!("the debugger cannot {other}")),
        }
    }

    /// Notes a new value of a variable. It takes effect when the run continues, in a fork of it.
    fn set_variable(&mut self, arguments: &serde_json::Value) -> Answer {
        let text = |key: &str| arguments[key].as_str().unwrap_or_default();
        if arguments["variablesReference"].as_u64() != Some(VARIABLES_GROUP) || self.present().span.is_none() {
            return Answer::refuse("only variables can be changed, and only before a step");
        }
        let (name, written) = (text("name").to_owned(), text("value"));
        if let Err(error) = self.playback.check_variable(self.present(), &name) {
            return Answer::refuse(error.to_string());
        }
        // A value that is not JSON is text.
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

    /// Stops at a position. Past the end, it sends `terminated` once.
    pub(super) fn step(&mut self, to: usize) -> Answer {
        match to <= self.last {
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

    /// Whether the present stop is the last one to go to.
    pub(super) fn is_at_last(&self) -> bool {
        self.at >= self.last
    }

    /// The effect of breakpoints at a stop.
    pub(super) async fn hit_at(&self, at: usize, breakpoints: &mut [&mut Breakpoint]) -> Hit {
        let stops = &self.playback.stops;
        let Some(line) = self.find_line(&stops[at]) else { return Hit::default() };
        let is_here = |one: &&mut Breakpoint| self.find_step_line(one.line) == Some(line);
        let mut here: Vec<&mut Breakpoint> =
            breakpoints.iter_mut().filter(|one| is_here(one)).map(|one| &mut **one).collect();
        let so_far: Vec<&Stop> = stops[..=at].iter().filter(|stop| self.find_line(stop) == Some(line)).collect();
        hit_breakpoints(&mut here, &self.playback, &so_far).await
    }

    /// The next known stop with a breakpoint, and the log points before it. Backwards, nothing is logged again.
    pub(super) async fn find_hit(
        &self,
        direction: Direction,
        breakpoints: &mut [&mut Breakpoint],
    ) -> (Option<usize>, Vec<String>) {
        let stops: Vec<usize> = match direction {
            Direction::Forwards => (self.at + 1..self.last + 1).collect(),
            Direction::Backwards => (0..self.at).rev().collect(),
        };
        let mut output = Vec::new();
        for at in stops {
            let hit = self.hit_at(at, breakpoints).await;
            if direction == Direction::Forwards {
                output.extend(hit.output);
            }
            if hit.stops {
                return (Some(at), output);
            }
        }
        (None, output)
    }

    /// The first stop after the composite step in which the present one is.
    pub(super) fn find_after_parent(&self) -> usize {
        let parent = self.present().path.parent();
        let mut after = self.playback.stops.iter().enumerate().take(self.last).skip(self.at + 1);
        let is_outside = |stop: &Stop| !stop.path.is_within(&parent) || stop.path == parent;
        after.find(|(_, stop)| is_outside(stop)).map_or(self.last, |(at, _)| at)
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
        // The variables have the first number, by which changes of them are recognised.
        self.shown = ShownValues::default();
        let mut groups = self.list_variable_groups(&stop).await;
        let children = self.playback.child_variables_at(&stop).await.unwrap_or_default();
        if !children.is_empty() {
            groups.push(("Child runs".to_owned(), children));
        }
        groups.push(("Steps".to_owned(), self.list_outputs(&stop)));
        groups.push(("Run".to_owned(), self.describe_run(&stop)));
        let scopes = groups.into_iter().map(|(name, values)| {
            json!({"name": name, "variablesReference": self.shown.add_group(values), "expensive": false})
        });
        Answer::new(json!({"scopes": scopes.collect::<Vec<_>>()}))
    }

    /// The variables that the step sees, followed by the surrounding scopes: iterations, blocks and the run.
    async fn list_variable_groups(&self, stop: &Stop) -> Vec<(String, Vec<(String, Value)>)> {
        let mut groups: Vec<(String, Vec<(String, Value)>)> = Vec::new();
        let (mut own, mut around) = (None, Vec::new());
        for scope in self.playback.scopes_at(stop).await {
            match scope.is_iteration {
                true => around.push((format!("Iteration {}", scope.path), scope.values)),
                false if own.is_none() => own = Some(scope.values),
                false if scope.path.as_str() == "/" => around.push(("Variables of the run".to_owned(), scope.values)),
                false => around.push((format!("Variables of {}", scope.path), scope.values)),
            }
        }
        let mut own = own.unwrap_or_default();
        for (name, value) in &self.changed {
            own.iter_mut().filter(|(known, _)| known == name).for_each(|(_, old)| *old = value.clone());
        }
        groups.push(("Variables".to_owned(), own));
        groups.extend(around);
        groups
    }

    /// The outputs of the steps so far.
    fn list_outputs(&self, stop: &Stop) -> Vec<(String, Value)> {
        let state = self.playback.state_at(stop);
        let steps = state.steps().iter().map(|step| {
            let value = match (&step.output, &step.error) {
                (Some(output), _) => output.clone(),
                (None, Some(error)) => error.message.as_str().into(),
                (None, None) => step.phase.name().into(),
            };
            (step.path.as_str().to_owned(), value)
        });
        steps.collect()
    }

    fn describe_run(&self, stop: &Stop) -> Vec<(String, Value)> {
        let state = self.playback.state_at(stop);
        let usage = &state.usage;
        let entries = [
            ("id", self.playback.run_id()),
            ("status", state.status.name().to_owned()),
            ("input tokens", usage.input_tokens.to_string()),
            ("output tokens", usage.output_tokens.to_string()),
        ];
        entries.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
    }

    /// The value of a variable, of a field of it, or of an expression.
    async fn evaluate_expression(&mut self, written: &str) -> Answer {
        let stop = self.present().clone();
        let source = strip_reference(written.trim());
        let name =
            |scope: VisibleScope| scope.values.into_iter().find(|(known, _)| known == source).map(|(_, value)| value);
        // A name that is no identifier of JavaScript.
        let named = self.playback.scopes_at(&stop).await.into_iter().find_map(name);
        let value = match (named, VariableExpression::parse(source)) {
            (Some(value), _) => Ok(Some(value)),
            (None, Ok(expression)) => {
                self.playback.evaluate_at(&stop, &expression).await.map_err(|error| error.message.clone())
            }
            (None, Err(reason)) => Err(reason),
        };
        match value {
            Ok(Some(value)) => {
                let shown = show_value(&value);
                Answer::new(json!({"result": shown, "variablesReference": self.shown.add_content(value)}))
            }
            Ok(None) => Answer::refuse(format!("{written} has no value here")),
            Err(reason) => Answer::refuse(format!("{written} has no value here: {reason}")),
        }
    }
}

/// The expression in a reference such as `${name}` or `{{name}}`.
fn strip_reference(written: &str) -> &str {
    let inner = |start: &str, end: &str| written.strip_prefix(start)?.strip_suffix(end);
    let stripped = inner("${", "}").or_else(|| inner("{{", "}}")).or_else(|| inner("{", "}"));
    stripped.unwrap_or(written).trim()
}

/// A path from the root.
pub(super) fn absolute_path(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
