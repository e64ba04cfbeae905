//! A session of the debugger: the run, the breakpoints, and the answers to the editor's requests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use flowloom_app::definitions::source::Loader;
use flowloom_app::runs::halting::{HaltedStep, HaltingEvent, HaltingRun};
use flowloom_app::runs::last::find_last_run;
use flowloom_app::runs::playback::Playback;
use flowloom_core::json::parse_value;
use flowloom_core::path::Path as StepPath;
use serde_json::json;

use super::breakpoints::Breakpoint;
use super::numbering::Numbering;
use super::recorded::{Direction, RecordedRun, absolute_path};
use crate::server::LoadConfig;

/// The number of the only thread.
pub(super) const THREAD: u32 = 1;

/// An event of the protocol: its name and its content.
pub(super) type DebugEvent = (&'static str, serde_json::Value);

/// The answer to a request, and the events that follow it.
pub(super) struct Answer {
    /// The content of the answer, or why there is none.
    pub(super) body: Result<serde_json::Value, String>,
    pub(super) events: Vec<DebugEvent>,
}

impl Answer {
    pub(super) fn new(body: serde_json::Value) -> Answer {
        Answer { body: Ok(body), events: Vec::new() }
    }

    pub(super) fn with_event(mut self, name: &'static str, body: serde_json::Value) -> Answer {
        self.events.push((name, body));
        self
    }

    pub(super) fn refuse(message: impl Into<String>) -> Answer {
        Answer { body: Err(message.into()), events: Vec::new() }
    }
}

/// A conversation with an editor.
pub(super) struct DebugSession {
    load_config: LoadConfig,
    run: Option<RecordedRun>,
    live: Option<LiveRun>,
    /// The breakpoints by file. The text of a run that is no file any more has no path.
    breakpoints: BTreeMap<PathBuf, Vec<Breakpoint>>,
    stops_on_entry: bool,
    numbering: Numbering,
}

/// A run that is driven live.
struct LiveRun {
    run: HaltingRun,
    /// The step that waits; `None` while the run continues.
    halted: Option<HaltedStep>,
    /// Where the run stops next.
    target: StopTarget,
    is_over: bool,
    /// A step that is let happen without a halt.
    passes: Option<StepPath>,
}

/// Where a live run stops next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StopTarget {
    /// At the next step.
    NextStep,
    /// At a breakpoint.
    Breakpoint,
}

impl DebugSession {
    pub(super) fn new(load_config: LoadConfig) -> DebugSession {
        let (breakpoints, numbering) = (BTreeMap::new(), Numbering::default());
        DebugSession { load_config, run: None, live: None, breakpoints, stops_on_entry: true, numbering }
    }

    /// Answers a request in the numbers of the editor.
    pub(super) async fn answer(&mut self, command: &str, arguments: &serde_json::Value) -> Answer {
        if command == "initialize" {
            self.numbering = Numbering::of_editor(arguments);
        }
        let mut answer = self.answer_numbered(command, &self.numbering.number_arguments(arguments)).await;
        if let Ok(body) = &mut answer.body {
            self.numbering.number_response(body);
        }
        answer
    }

    async fn answer_numbered(&mut self, command: &str, arguments: &serde_json::Value) -> Answer {
        match command {
            "initialize" => Answer::new(json!({
                "supportsConfigurationDoneRequest": true,
                "supportsStepBack": true,
                "supportsSetVariable": true,
                "supportsEvaluateForHovers": true,
                "supportsConditionalBreakpoints": true,
                "supportsHitConditionalBreakpoints": true,
                "supportsLogPoints": true,
            }))
            .with_event("initialized", json!({})),
            "launch" | "attach" => self.open_run(arguments).await,
            "disconnect" | "terminate" => Answer::new(json!({})),
            "threads" => Answer::new(json!({"threads": [{"id": THREAD, "name": "run"}]})),
            "setExceptionBreakpoints" => Answer::new(json!({})),
            "setBreakpoints" => self.set_breakpoints(arguments),
            "continue" | "next" | "stepIn" | "stepOut" if self.has_changes() => self.fork_run(command).await,
            "configurationDone" | "continue" | "reverseContinue" | "next" | "stepIn" | "stepOut" => {
                self.continue_run(command).await
            }
            _ => match &mut self.run {
                Some(run) => run.answer(command, arguments).await,
                None => Answer::refuse("no run is open: launch one first"),
            },
        }
    }

    /// Opens a recorded run, or starts a new one.
    async fn open_run(&mut self, arguments: &serde_json::Value) -> Answer {
        let Some(definition) = arguments["definition"].as_str() else {
            return Answer::refuse("\"definition\" is missing: name the file of the definition");
        };
        self.stops_on_entry = arguments["stopOnEntry"].as_bool().unwrap_or(true);
        let definition = PathBuf::from(definition);
        if !definition.exists() {
            return Answer::refuse(format!("there is no file {}: name a definition", definition.display()));
        }
        let opened = match (arguments.get("inputs"), arguments["run"].as_str()) {
            (Some(inputs), _) => self.start_run(&definition, inputs).await,
            (None, None | Some("last")) => self.play_last_run(&definition).await,
            (None, Some(run)) => self.play_run(&definition, run).await,
        };
        match opened {
            Ok(()) => Answer::new(json!({})),
            Err(message) => Answer::refuse(message),
        }
    }

    /// Opens the newest run of the definition, not of any other one of the project.
    async fn play_last_run(&mut self, definition: &Path) -> Result<(), String> {
        let config = (self.load_config)(definition).map_err(|error| error.to_string())?;
        let Some(plan) = Loader::new(&config).compile(definition).compiled.plan else {
            let path = definition.display();
            return Err(format!("{path} has errors, so its last run cannot be found: give the id of a run as \"run\""));
        };
        match find_last_run(&config, &plan.name).await.map_err(|error| error.to_string())? {
            Some(last) => self.play_run(definition, &last.id.to_string()).await,
            None => Err(format!("there is no run of {} yet: run it, or give \"inputs\" to start one", plan.name)),
        }
    }

    async fn play_run(&mut self, definition: &Path, run: &str) -> Result<(), String> {
        let config = (self.load_config)(definition).map_err(|error| error.to_string())?;
        let playback = Playback::open(config, run).await.map_err(|error| error.to_string())?;
        self.run = Some(RecordedRun::new(playback, definition.to_owned()));
        Ok(())
    }

    /// Starts a run, up to its first step.
    async fn start_run(&mut self, definition: &Path, inputs: &serde_json::Value) -> Result<(), String> {
        let config = (self.load_config)(definition).map_err(|error| error.to_string())?;
        let inputs = parse_value(&inputs.to_string()).map_err(|error| error.to_string())?;
        let mut run = HaltingRun::start(config, definition, inputs).await.map_err(|error| error.to_string())?;
        let (halted, is_over) = match run.next_event().await {
            HaltingEvent::Halted(step) => (Some(step), false),
            HaltingEvent::Over(_) => (None, true),
        };
        self.play_run(definition, &run.id.to_string()).await?;
        if let (Some(run), Some(step)) = (&mut self.run, &halted) {
            run.end_at(&step.path);
        }
        self.live = Some(LiveRun { run, halted, target: StopTarget::NextStep, is_over, passes: None });
        Ok(())
    }

    /// Whether a variable has a new value.
    fn has_changes(&self) -> bool {
        self.run.as_ref().is_some_and(|run| !run.changed.is_empty())
    }

    /// Continues in a fork of the run, in which the variables have their new values.
    async fn fork_run(&mut self, command: &str) -> Answer {
        let Some(run) = &mut self.run else { return Answer::refuse("no run is open: launch one first") };
        let (definition, at, id) = (run.definition.clone(), run.present_path(), run.playback.run_id());
        let set = std::mem::take(&mut run.changed);
        // The run that is left does not continue by itself.
        self.live = None;
        let config = match (self.load_config)(&definition) {
            Ok(config) => config,
            Err(error) => return Answer::refuse(error.to_string()),
        };
        let fork = match HaltingRun::fork(config, &id, &at, set).await {
            Ok(fork) => fork,
            Err(error) => return Answer::refuse(error.to_string()),
        };
        let message = format!("the run continues as a fork: {}\n", fork.id);
        let target = if command == "continue" { StopTarget::Breakpoint } else { StopTarget::NextStep };
        // The step at which it begins is let happen; it is the next one that is of interest.
        self.live = Some(LiveRun { run: fork, halted: None, target, is_over: false, passes: Some(at) });
        Answer::new(json!({"allThreadsContinued": true}))
            .with_event("output", json!({"category": "console", "output": message}))
    }

    /// Continues as a request demands: in the recorded events, or with the next step of a live run.
    async fn continue_run(&mut self, command: &str) -> Answer {
        let (found, output) = match self.find_next(command).await {
            Ok(found) => found,
            Err(answer) => return answer,
        };
        let moved = self.move_to(command, found);
        let logged = output.into_iter().map(describe_output);
        Answer { events: logged.chain(moved.events).collect(), ..moved }
    }

    /// The stop at which a request ends, if it is known already, and the log points on the way; or the answer.
    async fn find_next(&mut self, command: &str) -> Result<(Option<usize>, Vec<String>), Answer> {
        let DebugSession { run, breakpoints, stops_on_entry, .. } = self;
        let Some(run) = run else { return Err(Answer::refuse("no run is open: launch one first")) };
        let mut breakpoints = list_breakpoints(breakpoints, &run.definition);
        let mut output = Vec::new();
        match command {
            "reverseContinue" => {
                let (found, _) = run.find_hit(Direction::Backwards, &mut breakpoints).await;
                return Err(match found {
                    Some(at) => run.stop_at(at, "breakpoint"),
                    None => run.stop_at(0, "entry"),
                });
            }
            "configurationDone" => {
                let hit = run.hit_at(0, &mut breakpoints).await;
                output.extend(hit.output);
                if *stops_on_entry || hit.stops {
                    let entry = run.stop_at(0, "entry");
                    let logged = output.into_iter().map(describe_output);
                    return Err(Answer { events: logged.chain(entry.events).collect(), ..entry });
                }
            }
            _ => {}
        }
        if matches!(command, "configurationDone" | "continue") {
            let (found, logged) = run.find_hit(Direction::Forwards, &mut breakpoints).await;
            output.extend(logged);
            return Ok((found, output));
        }
        let found = match command {
            _ if run.is_at_last() => None,
            "stepOut" => Some(run.find_after_parent()),
            _ => Some(run.at + 1),
        };
        for at in found.map_or(0..0, |found| run.at + 1..found + 1) {
            output.extend(run.hit_at(at, &mut breakpoints).await.output);
        }
        Ok((found, output))
    }

    fn move_to(&mut self, command: &str, found: Option<usize>) -> Answer {
        let Some(run) = &mut self.run else { return Answer::refuse("no run is open: launch one first") };
        let continues = matches!(command, "configurationDone" | "continue");
        let last = run.last_position();
        match (found, self.live.as_mut().filter(|live| !live.is_over)) {
            (Some(at), _) => run.stop_at(at, if continues { "breakpoint" } else { "step" }),
            (None, Some(live)) => {
                live.target = if continues { StopTarget::Breakpoint } else { StopTarget::NextStep };
                live.halted.take().into_iter().for_each(HaltedStep::release);
                Answer::new(json!({"allThreadsContinued": true}))
            }
            // The end itself can be looked at, once.
            (None, None) if run.at < last => run.stop_at(last, "pause"),
            (None, None) => run.step(last + 1),
        }
    }

    /// Waits for the next event of a live run. Never ends while no run continues. May be dropped at any time.
    pub(super) async fn wait_for_run(&mut self) -> HaltingEvent {
        match self.live.as_mut().filter(|live| live.halted.is_none() && !live.is_over) {
            Some(live) => live.run.next_event().await,
            None => std::future::pending().await,
        }
    }

    /// Reads the progress of a live run, and notifies the editor if the run has reached its goal; otherwise it continues.
    pub(super) async fn show_progress(&mut self, event: HaltingEvent) -> Vec<DebugEvent> {
        let (Some(live), Some(run)) = (&mut self.live, &self.run) else { return Vec::new() };
        let over = match event {
            HaltingEvent::Halted(step) if live.passes.as_ref() == Some(&step.path) => {
                live.passes = None;
                step.release();
                return Vec::new();
            }
            HaltingEvent::Halted(step) => {
                live.halted = Some(step);
                None
            }
            HaltingEvent::Over(status) => {
                live.is_over = true;
                Some(status)
            }
        };
        let (definition, id, target) = (run.definition.clone(), live.run.id.to_string(), live.target);
        if let Err(message) = self.play_run(&definition, &id).await {
            return vec![("output", json!({"category": "stderr", "output": message})), ("terminated", json!({}))];
        }
        let DebugSession { run, live, breakpoints, .. } = self;
        let Some(run) = run else { return Vec::new() };
        if let Some(status) = over {
            let output = json!({"category": "console", "output": format!("the run {id} is {}\n", status.name())});
            let stopped = run.stop_at(run.last_position(), "pause").events;
            return [vec![("output", output)], stopped].concat();
        }
        let halted = live.as_ref().and_then(|live| live.halted.as_ref());
        let here = halted.map_or(run.last_position(), |step| run.end_at(&step.path));
        let hit = run.hit_at(here, &mut list_breakpoints(breakpoints, &run.definition)).await;
        let logged: Vec<DebugEvent> = hit.output.into_iter().map(describe_output).collect();
        if target == StopTarget::Breakpoint && !hit.stops {
            let halted = self.live.as_mut().and_then(|live| live.halted.take());
            halted.into_iter().for_each(HaltedStep::release);
            return logged;
        }
        let stopped = run.stop_at(here, if target == StopTarget::Breakpoint { "breakpoint" } else { "step" });
        [logged, stopped.events].concat()
    }

    /// Replaces the breakpoints of one file.
    fn set_breakpoints(&mut self, arguments: &serde_json::Value) -> Answer {
        let file = arguments["source"]["path"].as_str().map(|path| absolute_path(Path::new(path))).unwrap_or_default();
        let wanted: Vec<&serde_json::Value> = arguments["breakpoints"].as_array().into_iter().flatten().collect();
        let parsed: Vec<Option<Result<Breakpoint, String>>> = wanted.iter().map(|one| Breakpoint::parse(one)).collect();
        let run = self.run.as_ref();
        let is_own = file.as_os_str().is_empty() || run.is_none_or(|run| absolute_path(&run.definition) == file);
        let is_live = self.live.is_some();
        let verify = |one: &Option<Result<Breakpoint, String>>| {
            let line = match one {
                Some(Ok(breakpoint)) => breakpoint.line,
                // Without the condition, the run would stop at a place that was not requested.
                Some(Err(message)) => return json!({"verified": false, "message": message}),
                None => 0,
            };
            let refuse = |message: &str| json!({"verified": false, "line": line, "message": message});
            if !is_own {
                return refuse("the run is of another definition");
            }
            match run.map(|run| run.find_step_line(line)) {
                Some(Some(line)) => json!({"verified": true, "line": line}),
                Some(None) if !is_live => refuse("no step of the run is here"),
                // What a run will do is not known.
                Some(None) | None => json!({"verified": true, "line": line}),
            }
        };
        let verified: Vec<serde_json::Value> = parsed.iter().map(verify).collect();
        self.breakpoints.insert(file, parsed.into_iter().flatten().flatten().collect());
        Answer::new(json!({"breakpoints": verified}))
    }
}

/// The breakpoints of a definition.
fn list_breakpoints<'b>(all: &'b mut BTreeMap<PathBuf, Vec<Breakpoint>>, definition: &Path) -> Vec<&'b mut Breakpoint> {
    let definition = absolute_path(definition);
    let own = all.iter_mut().filter(|(file, _)| **file == definition || file.as_os_str().is_empty());
    own.flat_map(|(_, breakpoints)| breakpoints).collect()
}

/// A line for the console.
fn describe_output(line: String) -> DebugEvent {
    ("output", json!({"category": "console", "output": line + "\n"}))
}
