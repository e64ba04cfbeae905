//! Judges a run after it has ended: what its client saw, what the journal has, and what the outside world received.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use flowloom_core::hash::Hasher;
use serde_json::{Value, json};

use crate::child_runs::{Journals, StepPlace, list_child_runs, list_places};
use crate::definitions::mark_tag;
use crate::effects::{EffectServer, RecordedRequest};
use crate::http::{ConnectionLost, Request};
use crate::races::Rivals;
use crate::run_client::{Decision, Expectation, RunClient};

/// Statuses of runs that have ended.
const FINAL_STATUSES: [&str; 5] = ["succeeded", "failed", "cancelled", "timed_out", "budget_exceeded"];

/// The time limit of graph runs, in milliseconds. The time in which no server drives a run counts.
const TIME_LIMIT_MS: u64 = 90_000;

/// How long a request may be on its way that was sent before its run was cancelled.
const ARRIVAL_TIME: Duration = Duration::from_secs(1);

/// A broken promise of a run.
#[derive(Debug)]
pub(crate) struct Violation {
    pub(crate) what: String,
    pub(crate) tag: String,
    pub(crate) run: Option<String>,
    pub(crate) events: Vec<Value>,
    pub(crate) requests: Vec<RecordedRequest>,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(formatter, "VIOLATION {} (run {}, {})", self.what, self.run.as_deref().unwrap_or("-"), self.tag)?;
        for event in &self.events {
            let data = event.get("data").map(Value::to_string).unwrap_or_default();
            let data: String = data.chars().take(160).collect();
            let (seq, at, path) = (&event["seq"], &event["at"], &event["path"]);
            writeln!(formatter, "  {seq} {at} {path} #{} {} {data}", event["attempt"], event["event"])?;
        }
        for request in &self.requests {
            let RecordedRequest { method, path, key, at, .. } = request;
            writeln!(formatter, "  {:.3} {method} {path} key {}", at.as_secs_f64(), key.as_deref().unwrap_or("-"))?;
        }
        Ok(())
    }
}

/// Reads the expectation from a run that nothing disturbed.
pub(crate) fn learn_expectation(address: SocketAddr, client: &RunClient<'_>) -> Result<Expectation, String> {
    let run = client.run.as_deref().ok_or("the run was not started")?;
    let lost = |_: ConnectionLost| "the server does not answer".to_owned();
    let result = read_result(address, run, &client.tag).map_err(lost)?;
    if result["status"] != "succeeded" {
        return Err(format!("undisturbed, {} ends with {result}: {}", client.case.workflow, json!(client.seen)));
    }
    let journals = read_journals(address, run).map_err(lost)?;
    let finished = journals.values().flatten().filter(|event| event["event"] == "step_finished");
    // A person who supplies the output of a block does not write its memory.
    let outputs = finished.filter(|event| event.pointer("/data/memory").is_none()).filter_map(|event| {
        let output = event.pointer("/data/output")?;
        let places = list_places(&journals, event["run"].as_str()?, event["path"].as_str()?);
        Some((places.last()?.path.clone(), mark_tag(output, &client.tag)))
    });
    Ok(Expectation { result, outputs: outputs.collect() })
}

/// Everything that a run did not keep.
pub(crate) fn judge_run(
    address: SocketAddr,
    client: &RunClient<'_>,
    expectation: &Expectation,
    effects: &EffectServer,
) -> Result<Vec<String>, ConnectionLost> {
    let mut problems = client.problems.clone();
    let Some(run) = client.run.as_deref() else {
        problems.push("the run was never started".to_owned());
        return Ok(problems);
    };
    let journals = read_journals(address, run)?;
    let requests = effects.requests_of(&client.tag);
    compare_events(&client.seen, &journals[run], &mut problems);
    let confirmed_at = client.cancel.as_ref().and_then(|cancel| cancel.confirmed_at);
    if let Some(moment) = confirmed_at {
        check_cancelled(&journals[run], &requests, effects.time_of(moment), &mut problems);
    }
    for rivals in &client.rivals {
        check_rivals(address, rivals, &mut problems)?;
    }
    for (child, seen) in &client.seen_in_child_runs {
        compare_events(seen, journals.get(child).map_or(&[], Vec::as_slice), &mut problems);
    }
    for (run, journal) in &journals {
        check_end(journal, &mut problems);
        check_kept_steps(journal, &mut problems);
        check_silence_after_cancel(journal, &mut problems);
        check_replay(address, run, &mut problems)?;
    }
    let events: Vec<Value> = journals.into_values().flatten().collect();
    check_commands(client, &events, &mut problems);
    check_sends(client, &events, &requests, &mut problems);
    let result = read_result(address, run, &client.tag)?;
    let is_cancelled = client.may_be_cancelled() && result["status"] == "cancelled";
    if result != expectation.result && !is_cancelled && !has_reached_time_limit(&events) {
        problems.push(format!("the result is {result}; undisturbed it is {}", expectation.result));
    }
    Ok(problems)
}

/// Whether a run timed out, and not before its time: because the clock was set forward, or because servers were killed
/// for longer than the limit.
fn has_reached_time_limit(events: &[Value]) -> bool {
    let is_timed_out = |event: &&Value| {
        event["event"] == "run_finished" && event.pointer("/data/status") == Some(&Value::from("timed_out"))
    };
    let find_start = |end: &Value| events.iter().find(|event| event["run"] == end["run"] && event["seq"] == 1);
    let time = |event: &Value| event["at"].as_u64().unwrap_or_default();
    events
        .iter()
        .filter(is_timed_out)
        .any(|end| find_start(end).is_some_and(|start| time(end) >= time(start) + TIME_LIMIT_MS))
}

fn check_replay(address: SocketAddr, run: &str, problems: &mut Vec<String>) -> Result<(), ConnectionLost> {
    let (target, nothing) = (format!("/api/v1/runs/{run}/replay"), json!({}));
    let (status, state) = Request::post(&target, None, Some(&nothing)).send_json(address)?;
    if status != 200 {
        problems.push(format!("the replay of {run} fails: {status} {state}"));
    }
    Ok(())
}

/// The events of a run and of its child runs in their journals.
fn read_journals(address: SocketAddr, run: &str) -> Result<Journals, ConnectionLost> {
    let (mut journals, mut left) = (Journals::new(), vec![run.to_owned()]);
    while let Some(run) = left.pop() {
        if let Entry::Vacant(place) = journals.entry(run) {
            let events = read_journal(address, place.key())?;
            left.extend(list_child_runs(&events));
            place.insert(events);
        }
    }
    Ok(journals)
}

/// The events of a run in the journal.
pub(crate) fn read_journal(address: SocketAddr, run: &str) -> Result<Vec<Value>, ConnectionLost> {
    let mut stream = Request::get(&format!("/api/v1/runs/{run}/events?from=0")).send(address)?;
    let mut events = Vec::new();
    loop {
        let event = stream.next_event()?;
        if event.name == "done" {
            return Ok(events);
        }
        events.push(serde_json::from_str(&event.data).map_err(|_| ConnectionLost)?);
    }
}

/// Runs that have not ended, with their statuses; and child runs whose journal has no single end.
pub(crate) fn find_unfinished(address: SocketAddr) -> Result<Vec<String>, ConnectionLost> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let (_, page) = Request::get(&format!("/api/v1/runs?limit=100{cursor}")).send_json(address)?;
        for run in page["items"].as_array().into_iter().flatten() {
            let status = run["status"].as_str().unwrap_or_default();
            if !FINAL_STATUSES.contains(&status) {
                found.push(format!("the run {} ({}) is {status}", run["run_id"], run["name"]));
            }
        }
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(found),
        }
    }
}

fn read_result(address: SocketAddr, run: &str, tag: &str) -> Result<Value, ConnectionLost> {
    let (_, state) = Request::get(&format!("/api/v1/runs/{run}")).send_json(address)?;
    let (_, memory) = Request::get(&format!("/api/v1/memory/{tag}")).send_json(address)?;
    let error = state.get("error").cloned().unwrap_or_default();
    let result = json!({"status": state["status"], "output": state["output"], "error": error, "memory": memory});
    Ok(mark_tag(&result, tag))
}

/// Every event that a client received is in the journal, at the same place.
fn compare_events(seen: &[Value], journal: &[Value], problems: &mut Vec<String>) {
    for (number, event) in journal.iter().enumerate() {
        if event["seq"] != number as u64 + 1 {
            problems.push(format!("event {} is at position {}", event["seq"], number + 1));
        }
    }
    for event in seen {
        let stored = event["seq"].as_u64().and_then(|seq| journal.get(seq as usize - 1));
        if stored != Some(event) {
            problems.push(format!("the client received {event}, the journal has {stored:?}"));
        }
    }
}

fn check_end(journal: &[Value], problems: &mut Vec<String>) {
    let count = |name: &str| journal.iter().filter(|event| event["event"] == name).count();
    let (ends, reopenings) = (count("run_finished"), count("run_reopened"));
    if ends != reopenings + 1 || journal.last().is_none_or(|event| event["event"] != "run_finished") {
        problems.push(format!("the run has {ends} terminal events and was reopened {reopenings} times"));
    }
}

/// A retried run performs no step again that had succeeded, unless the retry requests it.
fn check_kept_steps(journal: &[Value], problems: &mut Vec<String>) {
    let is_outcome = |event: &&Value| event["event"] == "step_finished" && event["attempt"] != 0;
    for (number, reopened) in journal.iter().enumerate().filter(|(_, event)| event["event"] == "run_reopened") {
        let reset: Vec<&str> = reopened
            .pointer("/data/reset")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let kept: BTreeSet<&str> =
            journal[..number].iter().filter(is_outcome).filter_map(|event| event["path"].as_str()).collect();
        for event in journal[number..].iter().filter(|event| event["event"] == "step_started") {
            let path = event["path"].as_str().unwrap_or_default();
            if kept.contains(path) && !reset.contains(&path) {
                problems.push(format!("{path} had succeeded, and the retry performed it again"));
            }
        }
    }
}

/// Nothing starts, and no other command is applied, after the event of a cancellation.
fn check_silence_after_cancel(journal: &[Value], problems: &mut Vec<String>) {
    let cancelled = journal.iter().skip_while(|event| event["event"] != "cancel_requested");
    for event in cancelled {
        let name = event["event"].as_str().unwrap_or_default();
        if matches!(name, "step_started" | "step_resent" | "answered" | "resolved" | "run_reopened") {
            problems.push(format!("{name} at {} follows the cancellation", event["path"]));
        }
    }
}

/// A run whose cancellation was confirmed is cancelled, and sends nothing from then on.
fn check_cancelled(
    journal: &[Value],
    requests: &[RecordedRequest],
    confirmed_at: Duration,
    problems: &mut Vec<String>,
) {
    let status = journal.last().and_then(|event| event.pointer("/data/status")).cloned().unwrap_or_default();
    if status != "cancelled" {
        problems.push(format!("the cancellation was confirmed, and the run ends with {status}"));
    }
    for request in requests.iter().filter(|request| request.at > confirmed_at + ARRIVAL_TIME) {
        problems.push(format!("{} {} was sent after the cancellation was confirmed", request.method, request.path));
    }
}

/// Of two commands that ask for the same, at most one is applied, and none is left undecided.
fn check_rivals(address: SocketAddr, rivals: &Rivals, problems: &mut Vec<String>) -> Result<(), ConnectionLost> {
    let mut outcomes = Vec::new();
    for key in &rivals.keys {
        let target = format!("/api/v1/runs/{}/commands/{key}", rivals.run);
        // A command that never arrived, or that was refused immediately, is not stored.
        let (_, command) = Request::get(&target).send_json(address)?;
        outcomes.extend(command["outcome"].as_str().map(str::to_owned));
    }
    let count = |outcome: &str| outcomes.iter().filter(|found| *found == outcome).count();
    if count("applied") > 1 || count("pending") > 0 {
        problems.push(format!("the outcomes of the rivals {:?} are {outcomes:?}", rivals.keys));
    }
    Ok(())
}

/// Every command that a server applied is in the journal of its run, once.
fn check_commands(client: &RunClient<'_>, events: &[Value], problems: &mut Vec<String>) {
    let count = |name: &str, place: &StepPlace, attempt: Option<u64>| {
        let same = |event: &&Value| {
            event["event"] == name
                && event["run"] == place.run.as_str()
                && event["path"] == place.path.as_str()
                && attempt.is_none_or(|attempt| event["attempt"] == attempt)
        };
        events.iter().filter(same).count()
    };
    for place in client.answers.keys() {
        if count("answered", place, None) != 1 {
            problems.push(format!("the question {} has {} answers", place.path, count("answered", place, None)));
        }
    }
    for decision in client.decisions.values() {
        let alike = |other: &&Decision| other.own_place == decision.own_place && other.attempt == decision.attempt;
        let sent = client.decisions.values().filter(alike).count();
        let acknowledged = client.decisions.values().filter(alike).filter(|other| other.is_acknowledged).count();
        let resolved = count("resolved", &decision.own_place, Some(decision.attempt));
        if !(acknowledged..=sent).contains(&resolved) {
            let path = &decision.own_place.path;
            problems.push(format!("{path}: {sent} decisions, {acknowledged} acknowledged, {resolved} recorded"));
        }
    }
}

/// Every request with a key was recorded before as an effect of the run or of a child run, under the key of its attempt. An effect that may
/// be performed at most once is sent once, and once more for each decision to send it again.
fn check_sends(client: &RunClient<'_>, events: &[Value], requests: &[RecordedRequest], problems: &mut Vec<String>) {
    let started: BTreeMap<String, &Value> =
        events.iter().filter(|event| event["event"] == "step_started").map(|event| (key_of(event), event)).collect();
    let mut sends: BTreeMap<&str, usize> = BTreeMap::new();
    for request in requests {
        match request.key.as_deref() {
            Some(key) => *sends.entry(key).or_default() += 1,
            None if request.method == "POST" => problems.push(format!("{} was sent without a key", request.path)),
            None => {}
        }
    }
    for (key, count) in sends {
        let Some(step) = started.get(key) else {
            // A child run that was cancelled with its parent run before it waited is not known here.
            if client.may_be_cancelled() {
                continue;
            }
            problems.push(format!("a request with the key {key} belongs to no effect of the run"));
            continue;
        };
        let is_same = |decision: &&Decision| {
            let StepPlace { run, path } = &decision.own_place;
            *run == step["run"] && *path == step["path"] && decision.attempt == step["attempt"]
        };
        let resends = client.decisions.values().filter(|decision| decision.how == "resend").filter(is_same).count();
        if step.pointer("/data/class") == Some(&"at_most_once".into()) && count > 1 + resends {
            let path = &step["path"];
            problems.push(format!("{path} was sent {count} times with {resends} decisions to resend"));
        }
    }
}

/// The idempotency key of an attempt.
fn key_of(event: &Value) -> String {
    let text = |name: &str| event[name].as_str().unwrap_or_default();
    let mut hasher = Hasher::new();
    hasher.add_text(text("run")).add_text(text("path")).add_number(event["attempt"].as_u64().unwrap_or_default());
    hasher.finish().to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::board::Board;
    use crate::definitions::CASES;
    use crate::random::Random;

    fn make_event(seq: u64, name: &str, data: &Value) -> Value {
        json!({"run": "r", "seq": seq, "path": "/pay", "attempt": 1, "event": name, "data": data})
    }

    fn make_request(key: &str) -> RecordedRequest {
        let (method, path) = ("POST".to_owned(), "/post/pay".to_owned());
        RecordedRequest { method, path, tag: None, key: Some(key.to_owned()), body: String::new(), at: Duration::ZERO }
    }

    fn judge_sends(requests: &[RecordedRequest]) -> Vec<String> {
        let board = Board::default();
        let client = RunClient::new(&CASES[0], "run-1".to_owned(), None, &board, Random::new(1));
        let mut problems = Vec::new();
        check_sends(
            &client,
            &[make_event(1, "step_started", &json!({"class": "at_most_once"}))],
            requests,
            &mut problems,
        );
        problems
    }

    #[test]
    fn a_second_send_without_a_decision_is_found() {
        let request = make_request(&key_of(&make_event(1, "step_started", &Value::Null)));
        assert_eq!(judge_sends(std::slice::from_ref(&request)), Vec::<String>::new());
        assert_eq!(judge_sends(&[request.clone(), request]).len(), 1);
    }

    #[test]
    fn a_send_without_a_recorded_start_is_found() {
        assert_eq!(judge_sends(&[make_request("unknown")]).len(), 1);
    }

    #[test]
    fn a_lost_event_and_a_gap_are_found() {
        let [first, second] = [1, 2].map(|seq| make_event(seq, "step_finished", &json!({"output": seq})));
        let count = |seen: &[Value], journal: &[Value]| {
            let mut problems = Vec::new();
            compare_events(seen, journal, &mut problems);
            problems.len()
        };
        assert_eq!(count(&[first.clone(), second.clone()], &[first.clone(), second.clone()]), 0);
        assert_eq!(count(&[first.clone(), second.clone()], std::slice::from_ref(&first)), 1);
        assert_eq!(count(&[], &[second]), 1);
    }

    #[test]
    fn a_second_end_is_found() {
        let end = make_event(1, "run_finished", &json!({"status": "succeeded"}));
        let mut problems = Vec::new();
        check_end(std::slice::from_ref(&end), &mut problems);
        assert_eq!(problems.len(), 0);
        check_end(&[end.clone(), end], &mut problems);
        assert_eq!(problems.len(), 1);
    }

    #[test]
    fn what_follows_a_cancellation_is_found() {
        let journal = |name: &str| {
            let path = json!("/pay");
            [
                json!({"event": "cancel_requested"}),
                json!({"event": name, "path": path}),
                make_event(3, "run_finished", &json!({"status": "cancelled"})),
            ]
        };
        let count = |journal: &[Value], request_ms: u64| {
            let mut problems = Vec::new();
            check_silence_after_cancel(journal, &mut problems);
            let request = RecordedRequest { at: Duration::from_millis(request_ms), ..make_request("k") };
            check_cancelled(journal, &[request], Duration::from_millis(100), &mut problems);
            problems.len()
        };
        assert_eq!(count(&journal("step_aborted"), 100), 0);
        assert_eq!(count(&journal("step_started"), 100), 1);
        assert_eq!(count(&journal("answered"), 100), 1);
        assert_eq!(count(&journal("step_aborted"), 2000), 1);
        assert_eq!(count(&journal("step_aborted")[..2], 100), 1);
    }

    #[test]
    fn a_repetition_of_a_kept_step_is_found() {
        let count = |reset: &[&str]| {
            let mut problems = Vec::new();
            let [mut first, mut again] = ["step_finished", "step_started"].map(|name| make_event(1, name, &json!({})));
            (first["attempt"], again["attempt"]) = (1.into(), 2.into());
            check_kept_steps(&[first, make_event(2, "run_reopened", &json!({"reset": reset})), again], &mut problems);
            problems.len()
        };
        assert_eq!((count(&["/pay"]), count(&["/other"])), (0, 1));
    }

    #[test]
    fn a_run_may_not_time_out_before_its_time() {
        let mut start = make_event(1, "run_created", &Value::Null);
        start["at"] = 1.into();
        let mut end = make_event(2, "run_finished", &json!({"status": "timed_out"}));
        end["at"] = 89_000.into();
        assert!(!has_reached_time_limit(&[start.clone(), end.clone()]));
        end["at"] = 86_400_001.into();
        assert!(has_reached_time_limit(&[start, end]));
    }
}
