//! The client of one run: starts it, follows its events over every crash, answers its questions and decides about its
//! uncertain effects, until it ends.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use crate::board::{Board, ServerPlace};
use crate::child_runs::{EventId, Journals, OpenStep, StepPlace, find_open_steps, list_child_runs};
use crate::definitions::{Case, insert_tag};
use crate::http::{ConnectionLost, Request};
use crate::races::{ClientCommand, PlannedCancel, Rivals};
use crate::random::Random;

/// The pause after a request that could not be sent or changed nothing.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// The result of an undisturbed run of a case.
#[derive(Clone, Default)]
pub(crate) struct Expectation {
    /// Status, output and error of the run.
    pub(crate) result: Value,
    /// The output of each effect, by path.
    pub(crate) outputs: BTreeMap<String, Value>,
}

/// A decision about an uncertain effect.
#[derive(Clone, Debug)]
pub(crate) struct Decision {
    /// The step in its own run.
    pub(crate) own_place: StepPlace,
    /// Where the decision is sent: the step in its own run, or in a run around that.
    pub(crate) place: StepPlace,
    pub(crate) attempt: u64,
    /// `resend`, or `value`.
    pub(crate) how: &'static str,
    pub(crate) value: Option<Value>,
    /// Whether a server reported that it was applied.
    pub(crate) is_acknowledged: bool,
    /// How often it was refused, because the effect did not wait.
    refusals: usize,
}

/// A run as its client knows it.
pub(crate) struct RunClient<'a> {
    pub(crate) case: &'static Case,
    pub(crate) tag: String,
    expectation: Option<&'a Expectation>,
    pub(crate) board: &'a Board,
    pub(crate) random: Random,
    /// The id of the run, once a server has returned it.
    pub(crate) run: Option<String>,
    /// The events that were received, in order.
    pub(crate) seen: Vec<Value>,
    /// The events of child runs that were received, in order.
    pub(crate) seen_in_child_runs: Journals,
    /// The decisions, by the `step_uncertain` event.
    pub(crate) decisions: BTreeMap<EventId, Decision>,
    /// The answers that a server reported as applied, by the question in its own run.
    pub(crate) answers: BTreeMap<StepPlace, String>,
    /// Responses and events that a client must never receive.
    pub(crate) problems: Vec<String>,
    /// The last answer to a command.
    pub(crate) last_answer: String,
    /// Commands that raced.
    pub(crate) rivals: Vec<Rivals>,
    /// The cancellation, if the client plans one.
    pub(crate) cancel: Option<PlannedCancel>,
}

/// The client's next action.
enum Turn {
    Ended,
    Again,
    /// Nothing could be done; wait.
    Wait,
}

impl<'a> RunClient<'a> {
    pub(crate) fn new(
        case: &'static Case,
        tag: String,
        expectation: Option<&'a Expectation>,
        board: &'a Board,
        random: Random,
    ) -> RunClient<'a> {
        RunClient {
            case,
            tag,
            expectation,
            board,
            random,
            run: None,
            seen: Vec::new(),
            seen_in_child_runs: Journals::new(),
            decisions: BTreeMap::new(),
            answers: BTreeMap::new(),
            problems: Vec::new(),
            last_answer: String::new(),
            rivals: Vec::new(),
            cancel: None,
        }
    }

    /// Drives the run until it ends; `false` if it does not.
    pub(crate) fn run_to_end(&mut self) -> bool {
        while let Some(place) = self.board.wait_for_server(self.random.below(8)) {
            match self.take_turn(place) {
                Ok(Turn::Ended) => return true,
                Ok(Turn::Again) => {}
                Ok(Turn::Wait) | Err(ConnectionLost) => self.board.wait_for_change(place, RETRY_PAUSE),
            }
        }
        false
    }

    fn take_turn(&mut self, place: ServerPlace) -> Result<Turn, ConnectionLost> {
        let Some(run) = self.run.clone() else { return self.start(place) };
        self.follow_events(place, &run)?;
        let (status, state) = Request::get(&format!("/api/v1/runs/{run}")).send_json(place.address)?;
        if status >= 500 || status == 429 {
            return Ok(Turn::Wait);
        }
        match state["status"].as_str().unwrap_or_default() {
            "waiting" => self.answer_questions(place),
            "uncertain" => self.decide(place),
            "quarantined" => self.resume(place, &run),
            "running" | "queued" | "interrupted" => Ok(Turn::Wait),
            "" => {
                self.problems.push(format!("the state of the run is {status} {state}"));
                Ok(Turn::Wait)
            }
            _ if self.seen.last().is_none_or(|event| event["event"] != "run_finished") => Ok(Turn::Again),
            "failed" if self.case.is_retried => self.retry(place, &run),
            _ => Ok(Turn::Ended),
        }
    }

    fn start(&mut self, place: ServerPlace) -> Result<Turn, ConnectionLost> {
        let body = json!({"workflow": self.case.workflow, "inputs": self.case.inputs(&self.tag), "user": self.tag});
        let (status, state) = Request::post("/api/v1/runs", Some(&self.tag), Some(&body)).send_json(place.address)?;
        match (status, state["run_id"].as_str()) {
            (200..=299 | 409, Some(run)) => {
                self.run = Some(run.to_owned());
                Ok(Turn::Again)
            }
            (429 | 500..=599, _) => Ok(Turn::Wait),
            _ => {
                self.problems.push(format!("the run cannot be started: {status} {state}"));
                Ok(Turn::Wait)
            }
        }
    }

    /// Receives events of the run and of the child runs that it shows.
    fn follow_child_runs(&mut self, place: ServerPlace) -> Result<(), ConnectionLost> {
        let mut left = list_child_runs(&self.seen);
        let mut known = BTreeSet::new();
        while let Some(run) = left.pop() {
            if !known.insert(run.clone()) {
                continue;
            }
            if self.events_of(&run).last().is_none_or(|event| event["event"] != "run_finished") {
                self.follow_events(place, &run)?;
            }
            left.extend(list_child_runs(self.events_of(&run)));
        }
        Ok(())
    }

    /// The received events of the run, or of one of its child runs.
    fn events_of(&mut self, run: &str) -> &mut Vec<Value> {
        match self.run.as_deref() == Some(run) {
            true => &mut self.seen,
            false => self.seen_in_child_runs.entry(run.to_owned()).or_default(),
        }
    }

    /// Receives events until the run ends or waits. Each event must follow the one before it.
    fn follow_events(&mut self, place: ServerPlace, run: &str) -> Result<(), ConnectionLost> {
        let target = format!("/api/v1/runs/{run}/events?from={}", self.events_of(run).len());
        let mut stream = Request { timeout: Duration::from_secs(4), ..Request::get(&target) }.send(place.address)?;
        if stream.status != 200 {
            return match stream.status {
                404 => {
                    self.problems.push(format!("the run {run} was acknowledged and is gone"));
                    Ok(())
                }
                _ => Err(ConnectionLost),
            };
        }
        loop {
            let event = stream.next_event()?;
            if event.name == "done" {
                return Ok(());
            }
            let event: Value = serde_json::from_str(&event.data).map_err(|_| ConnectionLost)?;
            let known = self.events_of(run).len();
            if event["seq"] != known as u64 + 1 {
                self.problems.push(format!("event {} of {run} follows event {known}", event["seq"]));
            }
            self.events_of(run).push(event);
            self.cancel_if_due(place);
        }
    }

    /// The steps of the run and of its child runs that wait since an event of kind `opening`.
    fn find_open_steps(
        &mut self,
        place: ServerPlace,
        opening: &str,
        closing: &str,
    ) -> Result<Vec<OpenStep>, ConnectionLost> {
        self.follow_child_runs(place)?;
        let run = self.run.clone().unwrap_or_default();
        let mut journals = self.seen_in_child_runs.clone();
        journals.insert(run.clone(), self.seen.clone());
        Ok(find_open_steps(&journals, &run, opening, closing))
    }

    fn answer_questions(&mut self, place: ServerPlace) -> Result<Turn, ConnectionLost> {
        let open = self.find_open_steps(place, "asked", "answered")?;
        for question in &open {
            let own = &question.places[0];
            let key = format!("{}-{}-{}-answer", self.tag, own.run, question.event["seq"]);
            // Always the same place for one question.
            let StepPlace { run, path } = &question.places[Random::for_part(0, &key).below(question.places.len())];
            let answer = question.answer();
            let body = json!({"path": path, "value": answer});
            let command = ClientCommand { run, name: "answer", key: &key, body };
            let (status, state) = self.send_command(place, &command)?;
            self.last_answer = format!("{key}: {status} {state}");
            match status {
                200 | 409 if state.get("status").is_some_and(Value::is_string) => {
                    self.answers.insert(own.clone(), answer);
                }
                202 | 429 | 500..=599 => {}
                409 if self.may_be_cancelled() => {}
                _ => self.problems.push(format!("the answer to {path} was refused: {status} {state}")),
            }
        }
        Ok(if open.is_empty() { Turn::Wait } else { Turn::Again })
    }

    fn decide(&mut self, place: ServerPlace) -> Result<Turn, ConnectionLost> {
        let open = self.find_open_steps(place, "step_uncertain", "resolved")?;
        for step in &open {
            let decision = self.choose_decision(step);
            let StepPlace { run, path } = &decision.place;
            let mut body = json!({"path": path, "how": decision.how});
            if let Some(value) = &decision.value {
                body["value"] = value.clone();
            }
            // A refused command keeps its outcome, so the next one has another key.
            let id = step.event_id();
            let key = format!("{}-{}-{}-resolve-{}", self.tag, id.run, id.seq, decision.refusals);
            let command = ClientCommand { run, name: "resolve", key: &key, body };
            let (status, state) = self.send_command(place, &command)?;
            let may_be_cancelled = self.may_be_cancelled();
            self.last_answer = format!("{key}: {status} {state}");
            let decision = self.decisions.entry(id).or_insert(decision);
            match status {
                // 409 with the state of a run that became uncertain again, 409 without it is a refusal.
                200 => decision.is_acknowledged = true,
                409 if state.get("run_id").is_some() => decision.is_acknowledged = true,
                // A block waits for a decision, and so do the effects in it: one after the other.
                409 if state["code"] == "FL1208" => decision.refusals += 1,
                202 | 429 | 500..=599 => {}
                409 if may_be_cancelled => {}
                _ => {
                    let path = &decision.place.path;
                    self.problems.push(format!("the decision about {path} was refused: {status} {state}"))
                }
            }
        }
        let is_refused = open.iter().any(|step| self.is_refused(&step.event_id()));
        Ok(if open.is_empty() || is_refused { Turn::Wait } else { Turn::Again })
    }

    fn is_refused(&self, id: &EventId) -> bool {
        self.decisions.get(id).is_some_and(|decision| decision.refusals > 0)
    }

    /// The decision about the effect of an uncertain step: always the same one.
    pub(crate) fn choose_decision(&mut self, step: &OpenStep) -> Decision {
        let outermost = step.places.last().map(|place| &place.path);
        let known = self.expectation.zip(outermost).and_then(|(expected, path)| expected.outputs.get(path));
        let value = known.filter(|_| self.random.below(2) == 0).map(|value| insert_tag(value, &self.tag));
        let place = step.places[self.random.below(step.places.len())].clone();
        let attempt = step.event["attempt"].as_u64().unwrap_or_default();
        let how = if value.is_some() { "value" } else { "resend" };
        let own_place = step.places[0].clone();
        let decision = Decision { own_place, place, attempt, how, value, is_acknowledged: false, refusals: 0 };
        self.decisions.entry(step.event_id()).or_insert(decision).clone()
    }

    /// Retries a run that has failed. The requests of a retry that another one has overtaken are refused.
    fn retry(&mut self, place: ServerPlace, run: &str) -> Result<Turn, ConnectionLost> {
        let key = format!("{}-retry-{}", self.tag, self.seen.len());
        let command = ClientCommand { run, name: "retry", key: &key, body: json!({}) };
        let (status, state) = self.send_command(place, &command)?;
        self.last_answer = format!("{key}: {status} {state}");
        match status {
            200 | 202 | 409 | 429 | 500..=599 => {}
            _ => self.problems.push(format!("the retry was refused: {status} {state}")),
        }
        Ok(Turn::Wait)
    }

    fn resume(&self, place: ServerPlace, run: &str) -> Result<Turn, ConnectionLost> {
        Request::post(&format!("/api/v1/runs/{run}/resume"), None, Some(&json!({}))).send_json(place.address)?;
        Ok(Turn::Wait)
    }
}
