//! Runs of `flowloom run`, killed at random times and continued with `resume`, `answer` and `resolve`.

use std::collections::btree_map::Entry;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::board::Board;
use crate::campaign::{CampaignReport, Crowd, learn_expectations};
use crate::child_runs::{Journals, StepPlace, find_open_steps, list_child_runs};
use crate::definitions::CASES;
use crate::program::{Database, Site};
use crate::random::Random;
use crate::run_client::RunClient;

/// Number of kills of one run at most.
const MAX_RUN_KILLS: usize = 8;
/// Number of commands after the last kill, before a run counts as stuck.
const MAX_COMMANDS: usize = 30;

/// Kills commands `kills` times.
pub fn kill_commands(durability: &'static str, seed: u64, kills: usize) -> Result<CampaignReport, String> {
    let started = Instant::now();
    let site = Site::new(Database::Sqlite(durability))?;
    let expectations = learn_expectations(&site)?;
    let crowd = Crowd::new(&site, &expectations, seed);
    let mut report = CampaignReport::default();
    let mut clients = Vec::new();
    let board = Board::default();
    let mut number = 0;
    while report.kills < kills {
        let case = &CASES[number % CASES.len()];
        number += 1;
        let tag = format!("run-{}-{seed:x}-cli{number}", case.workflow);
        let random = Random::for_part(seed, &tag);
        let mut client = RunClient::new(case, tag, expectations.get(case.workflow), &board, random);
        let has_ended = run_commands(&site, &mut client, &mut report.kills)?;
        clients.push((client, has_ended));
    }
    let server = site.start_server(None)?.ok_or("the server was killed by someone else")?;
    crowd.judge_all(&server, &clients, &mut report)?;
    report.duration = started.elapsed();
    Ok(report)
}

/// Runs commands until the run has ended; `false` if it does not end.
fn run_commands(site: &Site, client: &mut RunClient<'_>, kills: &mut usize) -> Result<bool, String> {
    let mut command = start_command(site, client)?;
    let mut left = client.random.below(MAX_RUN_KILLS) + 1;
    for _ in 0..MAX_RUN_KILLS + MAX_COMMANDS {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let child = child.map_err(|error| format!("cannot start the program: {error}"))?;
        let (printed, is_killed) = read_output(child, client, left > 0)?;
        *kills += usize::from(is_killed);
        left = left.saturating_sub(usize::from(is_killed));
        // The last line of a killed command may be incomplete; deltas have no number.
        let events = printed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        client.seen.extend(events.filter(|event| {
            event["seq"].is_u64() && client.run.as_ref().is_none_or(|run| event["run"] == run.as_str())
        }));
        command = match show_run(site, client)? {
            Some(state) if state["status"] == "failed" && client.case.is_retried => {
                let run = client.run.clone().unwrap_or_default();
                site.command(&["retry", &run, "--events"])
            }
            Some(state) if state["status"] == "succeeded" || state["status"] == "failed" => return Ok(true),
            Some(state) => next_command(site, client, state["events"].as_array().map_or(&[], Vec::as_slice))?,
            None => start_command(site, client)?,
        };
    }
    Ok(false)
}

/// The state of the client's run; `None` if it was not created. It is the newest one.
fn show_run(site: &Site, client: &mut RunClient<'_>) -> Result<Option<Value>, String> {
    let shown = site.command(&["show", "last", "--json"]).output().map_err(|error| error.to_string())?;
    let state: Value = serde_json::from_slice(&shown.stdout).unwrap_or_default();
    let is_own = state.pointer("/events/0/data/user").is_some_and(|user| *user == client.tag.as_str());
    client.run = state["run_id"].as_str().filter(|_| is_own).map(str::to_owned);
    Ok(is_own.then_some(state))
}

fn start_command(site: &Site, client: &mut RunClient<'_>) -> Result<Command, String> {
    let inputs = client.case.inputs(&client.tag);
    let input = match &inputs {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let file = site.folder.path().join(format!("{}.input", client.tag));
    std::fs::write(&file, input).map_err(|error| error.to_string())?;
    let mut command = site.command(&["run", client.case.file, "--user", &client.tag, "--events", "--input"]);
    command.arg(file);
    Ok(command)
}

/// The lines that the command printed. If it may be killed, it is, after a random time, unless it has ended before.
fn read_output(mut child: Child, client: &mut RunClient<'_>, may_kill: bool) -> Result<(String, bool), String> {
    if may_kill {
        std::thread::sleep(client.random.duration(50, 900));
    }
    let is_killed = may_kill && matches!(child.try_wait(), Ok(None));
    if is_killed {
        child.kill().map_err(|error| error.to_string())?;
    }
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    Ok((String::from_utf8_lossy(&output.stdout).into_owned(), is_killed))
}

/// The command that continues a run with these events, which waits, is uncertain or was interrupted.
fn next_command(site: &Site, client: &mut RunClient<'_>, events: &[Value]) -> Result<Command, String> {
    let run = client.run.clone().unwrap_or_default();
    let journals = show_journals(site, &run, events)?;
    if let Some(step) = find_open_steps(&journals, &run, "step_uncertain", "resolved").first() {
        let decision = client.choose_decision(step);
        let mut command = site.command(&["resolve", &decision.place.run, &decision.place.path, "--events"]);
        match &decision.value {
            Some(value) => command.arg("--value").arg(value.to_string()),
            None => command.arg("--resend"),
        };
        return Ok(command);
    }
    if let Some(step) = find_open_steps(&journals, &run, "asked", "answered").first() {
        let StepPlace { run, path } = &step.places[client.random.below(step.places.len())];
        return Ok(site.command(&["answer", run, &step.answer(), "--path", path, "--events"]));
    }
    Ok(site.command(&["resume", &run, "--events"]))
}

/// The events of a run, which are known, and of its child runs.
fn show_journals(site: &Site, run: &str, events: &[Value]) -> Result<Journals, String> {
    let mut journals = Journals::from([(run.to_owned(), events.to_vec())]);
    let mut left = list_child_runs(events);
    while let Some(run) = left.pop() {
        if let Entry::Vacant(place) = journals.entry(run) {
            let shown = site.command(&["show", place.key(), "--json"]).output().map_err(|error| error.to_string())?;
            let state: Value = serde_json::from_slice(&shown.stdout).unwrap_or_default();
            let events = state["events"].as_array().cloned().unwrap_or_default();
            left.extend(list_child_runs(&events));
            place.insert(events);
        }
    }
    Ok(journals)
}
