//! A session of the debugger: the run, the present stop, the breakpoints, and the answers to the editor's requests.

use std::path::{Path, PathBuf};

use flowloom_app::runs::playback::{Playback, Stop};
use flowloom_core::diagnostic::find_position;
use flowloom_core::value::Value;
use serde_json::json;

use super::values::{ShownValues, show_value};
use crate::server::LoadConfig;

/// The number of the text of a definition that has changed since the run.
const RECORDED_SOURCE: u32 = 1;

/// The number of the only thread.
const THREAD: u32 = 1;

/// The answer to a request, and the events that follow it.
pub(super) struct Answer {
    /// The content of the answer, or why there is none.
    pub(super) body: Result<serde_json::Value, String>,
    /// Events by name, with their content.
    pub(super) events: Vec<(&'static str, serde_json::Value)>,
}

impl Answer {
    fn new(body: serde_json::Value) -> Answer {
        Answer { body: Ok(body), events: Vec::new() }
    }

    fn with_event(mut self, name: &'static str, body: serde_json::Value) -> Answer {
        self.events.push((name, body));
        self
    }

    fn refuse(message: impl Into<String>) -> Answer {
        Answer { body: Err(message.into()), events: Vec::new() }
    }
}

/// A conversation with an editor.
pub(super) struct Session {
    load_config: LoadConfig,
    run: Option<PlayedRun>,
    /// Lines with a breakpoint, from 1.
    breakpoints: Vec<usize>,
    stops_on_entry: bool,
}

/// The run that is played.
struct PlayedRun {
    playback: Playback,
    /// The position of the present stop.
    at: usize,
    /// The file of the definition, as the editor names it.
    definition: PathBuf,
    shown: ShownValues,
}

/// Where a run goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forwards,
    Backwards,
}

impl Session {
    pub(super) fn new(load_config: LoadConfig) -> Session {
        Session { load_config, run: None, breakpoints: Vec::new(), stops_on_entry: true }
    }

    /// Answers a request.
    pub(super) async fn answer(&mut self, command: &str, arguments: &serde_json::Value) -> Answer {
        match command {
            "initialize" => Answer::new(json!({
                "supportsConfigurationDoneRequest": true,
                "supportsStepBack": true,
                "supportsEvaluateForHovers": true,
            }))
            .with_event("initialized", json!({})),
            "launch" | "attach" => self.open_run(arguments).await,
            "disconnect" | "terminate" => Answer::new(json!({})),
            "threads" => Answer::new(json!({"threads": [{"id": THREAD, "name": "run"}]})),
            "setExceptionBreakpoints" => Answer::new(json!({})),
            "setBreakpoints" => self.set_breakpoints(arguments),
            _ => match &mut self.run {
                Some(run) => run.answer(command, arguments, &self.breakpoints, self.stops_on_entry).await,
                None => Answer::refuse("no run is open: launch one first"),
            },
        }
    }

    async fn open_run(&mut self, arguments: &serde_json::Value) -> Answer {
        let Some(definition) = arguments["definition"].as_str() else {
            return Answer::refuse("\"definition\" is missing: name the file of the definition");
        };
        let definition = PathBuf::from(definition);
        let name = arguments["run"].as_str().unwrap_or("last");
        let config = match (self.load_config)(&definition) {
            Ok(config) => config,
            Err(error) => return Answer::refuse(error.to_string()),
        };
        match Playback::open(config, name).await {
            Ok(playback) => {
                self.stops_on_entry = arguments["stopOnEntry"].as_bool().unwrap_or(true);
                self.run = Some(PlayedRun { playback, at: 0, definition, shown: ShownValues::default() });
                Answer::new(json!({}))
            }
            Err(error) => Answer::refuse(error.to_string()),
        }
    }

    fn set_breakpoints(&mut self, arguments: &serde_json::Value) -> Answer {
        let wanted = arguments["breakpoints"].as_array().into_iter().flatten();
        let lines: Vec<usize> = wanted.filter_map(|one| usize::try_from(one["line"].as_u64()?).ok()).collect();
        self.breakpoints.clone_from(&lines);
        let verified: Vec<serde_json::Value> = lines
            .iter()
            .map(|line| match self.run.as_ref().map(|run| run.find_step_line(*line)) {
                Some(Some(line)) => json!({"verified": true, "line": line}),
                Some(None) => json!({"verified": false, "line": line, "message": "no step of the run is here"}),
                // Before the run is open, nothing is known.
                None => json!({"verified": true, "line": line}),
            })
            .collect();
        Answer::new(json!({"breakpoints": verified}))
    }
}

impl PlayedRun {
    async fn answer(
        &mut self,
        command: &str,
        arguments: &serde_json::Value,
        breakpoints: &[usize],
        stops_on_entry: bool,
    ) -> Answer {
        match command {
            "configurationDone" if stops_on_entry => self.stop_at(0, "entry"),
            "configurationDone" | "continue" => self.run_on(Direction::Forwards, breakpoints),
            "reverseContinue" => self.run_on(Direction::Backwards, breakpoints),
            "next" | "stepIn" => self.step(self.at + 1),
            "stepOut" => self.step(self.find_after_parent()),
            "stepBack" => self.step(self.at.saturating_sub(1)),
            "pause" => self.stop_at(self.at, "pause"),
            "stackTrace" => Answer::new(self.list_frames()),
            "scopes" => self.list_scopes().await,
            "variables" => {
                let number = arguments["variablesReference"].as_u64().and_then(|number| usize::try_from(number).ok());
                Answer::new(json!({"variables": self.shown.list_group(number.unwrap_or_default())}))
            }
            "evaluate" => self.evaluate(arguments["expression"].as_str().unwrap_or_default()).await,
            "source" => Answer::new(json!({"content": self.playback.definition()})),
            other => Answer::refuse(format!("the debugger of recorded runs cannot {other}")),
        }
    }

    fn present(&self) -> &Stop {
        &self.playback.stops[self.at]
    }

    /// Stops somewhere. Past the end, the session is over.
    fn step(&mut self, to: usize) -> Answer {
        match to < self.playback.stops.len() {
            true => self.stop_at(to, "step"),
            false => Answer::new(json!({})).with_event("terminated", json!({})),
        }
    }

    fn stop_at(&mut self, at: usize, reason: &str) -> Answer {
        self.at = at;
        // Values of an earlier stop are not asked for any more.
        self.shown = ShownValues::default();
        let body = json!({"reason": reason, "threadId": THREAD, "allThreadsStopped": true});
        Answer::new(json!({"allThreadsContinued": true})).with_event("stopped", body)
    }

    /// Goes on to the next breakpoint, or to the end.
    fn run_on(&mut self, direction: Direction, breakpoints: &[usize]) -> Answer {
        let lines: Vec<usize> = breakpoints.iter().filter_map(|line| self.find_step_line(*line)).collect();
        let is_hit = |at: &usize| self.find_line(&self.playback.stops[*at]).is_some_and(|line| lines.contains(&line));
        let last = self.playback.stops.len() - 1;
        let found = match direction {
            Direction::Forwards => (self.at + 1..=last).find(is_hit),
            Direction::Backwards => (0..self.at).rev().find(is_hit),
        };
        match (found, direction) {
            (Some(at), _) => self.stop_at(at, "breakpoint"),
            (None, Direction::Backwards) => self.stop_at(0, "entry"),
            // The end itself can be looked at, once.
            (None, Direction::Forwards) if self.at < last => self.stop_at(last, "pause"),
            (None, Direction::Forwards) => self.step(last + 1),
        }
    }

    /// The first stop after the composite step in which the present one is.
    fn find_after_parent(&self) -> usize {
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
    fn find_step_line(&self, line: usize) -> Option<usize> {
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
            true => json!({"name": name, "path": absolute(&self.definition)}),
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
        let variables = self.playback.variables_at(&stop).await;
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

fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}
