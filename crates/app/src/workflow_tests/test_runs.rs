//! The runs of a test: that of its definition, and the child runs of its steps. Steps of a child run have the path that they
//! have for the outermost run: `/call/run~1/answer`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use flowloom_core::event::{Event, Record};
use flowloom_core::hash::Hash;
use flowloom_core::path::Path;
use flowloom_core::state::{RunState, StepState};
use flowloom_runtime::requests::{CollectedRequests, SentRequest};
use flowloom_runtime::{ResetAttempts, Response, ScriptValue, list_responses};

use super::compare::request_to_test_json;
use super::file::{TestExpression, TestStep};
use crate::definitions::edit::has_end;

/// Separates the path of a step from those of the steps of its child run.
const CHILD_RUN_SEGMENT: &str = "/run~1/";

/// The attempt of a step that runs a workflow.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Call {
    /// The step, as the outermost run names it.
    pub(super) path: Path,
    /// The attempt, from 1.
    pub(super) attempt: u32,
}

/// A run among those of a test: the outermost one, or the child run of a call.
#[derive(Clone, Default)]
pub(super) struct RunPlace {
    call: Option<Call>,
}

impl RunPlace {
    /// The place of the child run that an attempt of a step of this run starts.
    pub(super) fn place_child_run(&self, step: &Path, attempt: u32) -> RunPlace {
        RunPlace { call: Some(Call { path: self.to_outer_path(step), attempt }) }
    }

    /// The path of a step of this run, as the outermost run names it.
    pub(super) fn to_outer_path(&self, step: &Path) -> Path {
        match &self.call {
            Some(call) => call.path.child_run_path(call.attempt, step),
            None => step.clone(),
        }
    }

    /// The path that this run gives to a step; `None` if the step belongs to another run.
    pub(super) fn to_own_path(&self, outer: &str) -> Option<Path> {
        let own = match &self.call {
            Some(_) => outer.strip_prefix(self.to_outer_path(&Path::root()).as_str())?,
            None => outer,
        };
        Path::parse(own).filter(|own| !own.as_str().contains(CHILD_RUN_SEGMENT))
    }
}

/// A run with its records, its requests and its state.
pub(super) struct TestRun {
    pub(super) place: RunPlace,
    pub(super) records: Vec<Arc<Record>>,
    /// Its requests. The attempts of a step that a retry has reset are counted from 1 again, and those before it are left out.
    pub(super) sent: Vec<SentRequest>,
    pub(super) scripts: HashMap<Path, Hash>,
    pub(super) state: RunState,
    reset: ResetAttempts,
}

impl TestRun {
    /// A run that was driven or followed, whose requests are in `collected`.
    pub(super) fn new(
        place: RunPlace,
        records: Vec<Arc<Record>>,
        state: RunState,
        collected: &CollectedRequests,
    ) -> TestRun {
        let reset = ResetAttempts::new(&records);
        let count_again = |sent: SentRequest| {
            let attempt = sent.attempt.checked_sub(reset.last_attempt(&sent.path)).filter(|attempt| *attempt > 0)?;
            Some(SentRequest { attempt, ..sent })
        };
        let sent = collected.take().into_iter().filter_map(count_again).collect();
        TestRun { place, records, sent, scripts: collected.take_scripts(), state, reset }
    }

    /// The number that the record has for the attempt of a request.
    pub(super) fn recorded_attempt(&self, sent: &SentRequest) -> u32 {
        sent.attempt + self.reset.last_attempt(&sent.path)
    }
}

/// All runs of a test.
pub(super) struct TestRuns {
    runs: Vec<TestRun>,
}

impl TestRuns {
    /// The outermost run and the runs below it.
    pub(super) fn new(outermost: TestRun, mut children: Vec<TestRun>) -> TestRuns {
        // Those of parallel steps end in any order.
        children.sort_by_key(|run| run.place.to_outer_path(&Path::root()));
        TestRuns { runs: std::iter::once(outermost).chain(children).collect() }
    }

    /// The requests of all runs.
    pub(super) fn list_sent(&self) -> Vec<SentRequest> {
        let all = self.runs.iter().flat_map(|run| run.sent.iter().map(|sent| (&run.place, sent)));
        all.map(|(place, sent)| SentRequest { path: place.to_outer_path(&sent.path), ..sent.clone() }).collect()
    }

    /// The steps of all runs with their paths, those of child runs first.
    pub(super) fn list_steps(&self) -> impl Iterator<Item = (Path, &StepState)> {
        let all = self.runs.iter().rev().flat_map(|run| run.state.steps().iter().map(|step| (&run.place, step)));
        all.map(|(place, step)| (place.to_outer_path(&step.path), step))
    }

    /// The step at a path, or the only one whose path ends with it.
    pub(super) fn find_step(&self, path: &str) -> Option<&StepState> {
        let exact = self.runs.iter().find_map(|run| run.state.find_step(&run.place.to_own_path(path)?));
        exact.or_else(|| match self.list_steps_at_end(path).as_slice() {
            [(_, only)] => Some(*only),
            _ => None,
        })
    }

    /// The steps whose paths end with `end`, with their paths.
    pub(super) fn list_steps_at_end(&self, end: &str) -> Vec<(Path, &StepState)> {
        self.list_steps().filter(|(path, _)| has_end(path, end)).collect()
    }

    /// The steps and expressions of a test that repeats these runs.
    pub(super) fn build_steps(&self) -> (Vec<TestStep>, Vec<TestExpression>) {
        let (mut steps, mut expressions) = (Vec::new(), Vec::new());
        let calls: HashSet<&Call> = self.runs.iter().filter_map(|run| run.place.call.as_ref()).collect();
        for run in &self.runs {
            let (own_steps, own_expressions) = build_run_steps(run, &calls);
            steps.extend(own_steps);
            expressions.extend(own_expressions);
        }
        (steps, expressions)
    }
}

/// The steps and expressions of one run. `calls` are the attempts that have run a workflow.
fn build_run_steps(run: &TestRun, calls: &HashSet<&Call>) -> (Vec<TestStep>, Vec<TestExpression>) {
    let (responses, scripts) = list_responses(&run.records, &run.scripts);
    let mut requests: HashMap<(&Path, u32), &SentRequest> = HashMap::new();
    let mut last: HashMap<&Path, &SentRequest> = HashMap::new();
    for request in &run.sent {
        requests.insert((&request.path, request.attempt), request);
        last.insert(&request.path, request);
    }
    let is_call = |path: &Path, attempt| calls.contains(&Call { path: run.place.to_outer_path(path), attempt });
    let step = |response: &Response| {
        let key = (&response.path, response.attempt);
        let sent = requests.get(&key).or_else(|| last.get(&response.path)).copied();
        let mut step = build_step(&run.place, &response.path, response.attempt, sent);
        step.request_hash = response.hash;
        match is_call(&response.path, response.attempt) {
            true => step.runs_workflow = true,
            false => add_outcome(&mut step, &response.outcome),
        }
        step
    };
    let mut steps: Vec<TestStep> = responses.iter().map(step).collect();
    // A step whose child run waits has no response.
    let ended: HashSet<(&Path, u32)> = responses.iter().map(|response| (&response.path, response.attempt)).collect();
    let waiting = run.sent.iter().filter(|sent| !ended.contains(&(&sent.path, sent.attempt)));
    steps.extend(waiting.filter(|sent| is_call(&sent.path, sent.attempt)).map(|sent| {
        let step = build_step(&run.place, &sent.path, sent.attempt, Some(sent));
        TestStep { request_hash: Some(sent.request.hash()), runs_workflow: true, ..step }
    }));
    let expression = |script: ScriptValue| {
        let path = run.place.to_outer_path(&script.path).to_string();
        TestExpression { path, hash: script.hash, value: script.value }
    };
    (steps, scripts.into_iter().map(expression).collect())
}

/// A step with its request.
fn build_step(place: &RunPlace, path: &Path, attempt: u32, sent: Option<&SentRequest>) -> TestStep {
    TestStep {
        path: place.to_outer_path(path).to_string(),
        attempt,
        kind: sent.map(|sent| sent.request.kind_name().to_owned()),
        request: sent.map(|sent| request_to_test_json(&sent.request)),
        request_hash: None,
        output: None,
        usage: None,
        memory: Vec::new(),
        error: None,
        then: None,
        runs_workflow: false,
    }
}

fn add_outcome(step: &mut TestStep, outcome: &Event) {
    match outcome {
        Event::StepFinished { output, usage, memory, .. } => {
            (step.output, step.usage, step.memory) = (output.clone(), *usage, memory.clone());
        }
        Event::StepFailed { error, then, .. } => {
            (step.error, step.then) = (Some(error.clone()), Some(then.clone()));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_child_runs_are_those_of_the_outermost_run() {
        let step = |path: &str| Path::parse(path).expect("a path");
        let child = RunPlace::default().place_child_run(&step("/call"), 1);
        let deeper = child.place_child_run(&step("/ask[2]"), 2);
        for (place, own, outer) in [
            (&RunPlace::default(), "/call", "/call"),
            (&child, "/answer", "/call/run~1/answer"),
            (&deeper, "/answer", "/call/run~1/ask[2]#2/run~1/answer"),
        ] {
            assert_eq!(place.to_outer_path(&step(own)).as_str(), outer);
            assert_eq!(place.to_own_path(outer), Some(step(own)));
        }
        assert_eq!(RunPlace::default().to_own_path("/call/run~1/answer"), None, "a step of a child run");
        assert_eq!(child.to_own_path("/call/run~1/ask[2]#2/run~1/answer"), None);
        assert_eq!(child.to_own_path("/other/run~1/answer"), None);
    }
}
