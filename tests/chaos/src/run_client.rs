//! The client of one run: starts it, follows its events over every crash, answers its questions and decides about its
//! uncertain effects, until it ends.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::board::{Board, Place};
use crate::definitions::{Case, answer_question, insert_tag};
use crate::http::{ConnectionLost, Request};
use crate::random::Random;

/// The pause after a request that could not be sent or changed nothing.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// What an undisturbed run of a case did.
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
    pub(crate) path: String,
    pub(crate) attempt: u64,
    /// `resend`, or `value`.
    pub(crate) how: &'static str,
    pub(crate) value: Option<Value>,
    /// Whether a server said that it was applied.
    pub(crate) is_acknowledged: bool,
    /// How often it was refused, because the effect did not wait.
    refusals: usize,
}

/// A run as its client knows it.
pub(crate) struct RunClient<'a> {
    pub(crate) case: &'static Case,
    pub(crate) tag: String,
    expectation: Option<&'a Expectation>,
    board: &'a Board,
    pub(crate) random: Random,
    /// The id of the run, once a server has told it.
    pub(crate) run: Option<String>,
    /// The events that were received, in order.
    pub(crate) seen: Vec<Value>,
    /// The decisions, by the number of the `step_uncertain` event.
    pub(crate) decisions: BTreeMap<u64, Decision>,
    /// The answers that a server said were applied, by the path of the question.
    pub(crate) answers: BTreeMap<String, String>,
    /// Responses and events that a client must never receive.
    pub(crate) complaints: Vec<String>,
}

/// What the client does next.
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
            decisions: BTreeMap::new(),
            answers: BTreeMap::new(),
            complaints: Vec::new(),
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

    fn take_turn(&mut self, place: Place) -> Result<Turn, ConnectionLost> {
        let Some(run) = self.run.clone() else { return self.start(place) };
        self.follow_events(place, &run)?;
        let (status, state) = Request::get(&format!("/api/v1/runs/{run}")).send_json(place.address)?;
        if status >= 500 || status == 429 {
            return Ok(Turn::Wait);
        }
        match state["status"].as_str().unwrap_or_default() {
            "waiting" => self.answer_questions(place, &run),
            "uncertain" => self.decide(place, &run),
            "quarantined" => self.resume(place, &run),
            "running" | "queued" | "interrupted" => Ok(Turn::Wait),
            "" => {
                self.complaints.push(format!("the state of the run is {status} {state}"));
                Ok(Turn::Wait)
            }
            _ if self.seen.last().is_some_and(|event| event["event"] == "run_finished") => Ok(Turn::Ended),
            _ => Ok(Turn::Again),
        }
    }

    fn start(&mut self, place: Place) -> Result<Turn, ConnectionLost> {
        let body = json!({"workflow": self.case.workflow, "inputs": self.case.inputs(&self.tag), "user": self.tag});
        let (status, state) = Request::post("/api/v1/runs", Some(&self.tag), Some(&body)).send_json(place.address)?;
        match (status, state["run_id"].as_str()) {
            (200..=299 | 409, Some(run)) => {
                self.run = Some(run.to_owned());
                Ok(Turn::Again)
            }
            (429 | 500..=599, _) => Ok(Turn::Wait),
            _ => {
                self.complaints.push(format!("the run cannot be started: {status} {state}"));
                Ok(Turn::Wait)
            }
        }
    }

    /// Receives events until the run ends or waits. Each event must follow the one before it.
    fn follow_events(&mut self, place: Place, run: &str) -> Result<(), ConnectionLost> {
        let target = format!("/api/v1/runs/{run}/events?from={}", self.seen.len());
        let mut stream = Request { timeout: Duration::from_secs(4), ..Request::get(&target) }.send(place.address)?;
        if stream.status != 200 {
            return match stream.status {
                404 => {
                    self.complaints.push(format!("the run {run} was acknowledged and is gone"));
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
            if event["seq"] != self.seen.len() as u64 + 1 {
                self.complaints.push(format!("event {} follows event {}", event["seq"], self.seen.len()));
            }
            self.seen.push(event);
        }
    }

    fn answer_questions(&mut self, place: Place, run: &str) -> Result<Turn, ConnectionLost> {
        let open = find_open(&self.seen, "asked", "answered");
        for question in &open {
            let path = question["path"].as_str().unwrap_or_default();
            let answer =
                answer_question(question.pointer("/data/question").and_then(Value::as_str).unwrap_or_default());
            let key = format!("{}-{}-answer", self.tag, question["seq"]);
            let body = json!({"path": path, "value": answer});
            let target = format!("/api/v1/runs/{run}/answer");
            let (status, state) = Request::post(&target, Some(&key), Some(&body)).send_json(place.address)?;
            match status {
                200 | 409 if state.get("status").is_some_and(Value::is_string) => {
                    self.answers.insert(path.to_owned(), answer);
                }
                202 | 429 | 500..=599 => {}
                _ => self.complaints.push(format!("the answer to {path} was refused: {status} {state}")),
            }
        }
        Ok(if open.is_empty() { Turn::Wait } else { Turn::Again })
    }

    fn decide(&mut self, place: Place, run: &str) -> Result<Turn, ConnectionLost> {
        let open = find_open(&self.seen, "step_uncertain", "resolved");
        for event in &open {
            let seq = event["seq"].as_u64().unwrap_or_default();
            let decision = self.choose_decision(seq, event);
            let mut body = json!({"path": decision.path, "how": decision.how});
            if let Some(value) = &decision.value {
                body["value"] = value.clone();
            }
            // A refused command keeps its outcome, so the next one has another key.
            let key = format!("{}-{seq}-resolve-{}", self.tag, decision.refusals);
            let target = format!("/api/v1/runs/{run}/resolve");
            let (status, state) = Request::post(&target, Some(&key), Some(&body)).send_json(place.address)?;
            let decision = self.decisions.entry(seq).or_insert(decision);
            match status {
                // 409 with the state of a run that became uncertain again, 409 without it is a refusal.
                200 => decision.is_acknowledged = true,
                409 if state.get("run_id").is_some() => decision.is_acknowledged = true,
                // A block waits for a decision, and so do the effects in it: one after the other.
                409 if state["code"] == "FL1208" => decision.refusals += 1,
                202 | 429 | 500..=599 => {}
                _ => {
                    self.complaints.push(format!("the decision about {} was refused: {status} {state}", decision.path))
                }
            }
        }
        let is_refused = open.iter().filter_map(|event| event["seq"].as_u64()).any(|seq| self.is_refused(seq));
        Ok(if open.is_empty() || is_refused { Turn::Wait } else { Turn::Again })
    }

    fn is_refused(&self, seq: u64) -> bool {
        self.decisions.get(&seq).is_some_and(|decision| decision.refusals > 0)
    }

    /// The decision about the effect that became uncertain with event `seq`: always the same one.
    pub(crate) fn choose_decision(&mut self, seq: u64, event: &Value) -> Decision {
        let path = event["path"].as_str().unwrap_or_default().to_owned();
        let known = self.expectation.and_then(|expected| expected.outputs.get(&path));
        let value = known.filter(|_| self.random.below(2) == 0).map(|value| insert_tag(value, &self.tag));
        let attempt = event["attempt"].as_u64().unwrap_or_default();
        let how = if value.is_some() { "value" } else { "resend" };
        let decision = Decision { path, attempt, how, value, is_acknowledged: false, refusals: 0 };
        self.decisions.entry(seq).or_insert(decision).clone()
    }

    fn resume(&self, place: Place, run: &str) -> Result<Turn, ConnectionLost> {
        Request::post(&format!("/api/v1/runs/{run}/resume"), None, Some(&json!({}))).send_json(place.address)?;
        Ok(Turn::Wait)
    }
}

/// The events of kind `opening` that no event of kind `closing` follows at the same place.
pub(crate) fn find_open(events: &[Value], opening: &str, closing: &str) -> Vec<Value> {
    let mut open: BTreeMap<String, Value> = BTreeMap::new();
    for event in events {
        let place = format!("{} {}", event["path"], event["attempt"]);
        match event["event"].as_str() {
            Some(name) if name == opening => drop(open.insert(place, event.clone())),
            Some(name) if name == closing => drop(open.remove(&place)),
            _ => {}
        }
    }
    open.into_values().collect()
}
