//! A campaign: many runs on servers that are killed at random times.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::board::Board;
use crate::definitions::CASES;
use crate::http::ConnectionLost;
use crate::oracle::{Violation, find_unfinished, judge_run, learn_expectation};
use crate::program::{Database, DatabaseKind, Server, Site};
use crate::races::PlannedCancel;
use crate::random::Random;
use crate::run_client::{Expectation, RunClient};

/// Number of runs at the same time.
const CLIENT_COUNT: usize = 10;
/// One of how many clients cancels its run, and after how many events at most.
const CANCEL_INTERVAL: usize = 8;
const MAX_EVENTS_BEFORE_CANCEL: usize = 16;
/// How long a run may take after the last kill.
const LAST_RUN_TIMEOUT: Duration = Duration::from_secs(60);

/// The results of undisturbed runs, by workflow.
pub(crate) type Expectations = BTreeMap<&'static str, Expectation>;

/// The figures of a campaign.
#[derive(Default)]
pub struct CampaignReport {
    /// Number of killed processes.
    pub kills: usize,
    /// Number of judged runs, without child runs.
    pub runs: usize,
    /// Number of requests that the effect server received.
    pub requests: usize,
    /// Number of decisions about uncertain effects.
    pub decisions: usize,
    /// Number of answers to questions.
    pub answers: usize,
    /// The broken promises.
    pub violations: Vec<String>,
    /// How long it took.
    pub duration: Duration,
}

/// Runs every case once, undisturbed.
pub(crate) fn learn_expectations(site: &Site) -> Result<Expectations, String> {
    let server = site.start_server(None)?.ok_or("the server was killed by someone else")?;
    let board = Board::default();
    board.add(server.address);
    board.set_deadline(Instant::now() + LAST_RUN_TIMEOUT);
    let mut expectations = Expectations::new();
    for case in CASES {
        let mut client = RunClient::new(case, format!("run-{}-0", case.workflow), None, &board, Random::new(0));
        if !client.run_to_end() || !client.problems.is_empty() {
            let (seen, problems) = (&client.seen, &client.problems);
            return Err(format!("undisturbed, {} does not end: {problems:?} {seen:#?}", case.workflow));
        }
        expectations.insert(case.workflow, learn_expectation(server.address, &client)?);
    }
    Ok(expectations)
}

/// Runs on the servers of one site, driven by clients on threads of their own.
pub(crate) struct Crowd<'a> {
    pub(crate) site: &'a Site,
    pub(crate) board: Board,
    expectations: &'a Expectations,
    seed: u64,
    /// Number of runs; `None`: until nothing disturbs them any longer.
    run_limit: Option<usize>,
    next_run: AtomicUsize,
    ended_runs: AtomicUsize,
    is_closing: AtomicBool,
}

impl<'a> Crowd<'a> {
    pub(crate) fn new(site: &'a Site, expectations: &'a Expectations, seed: u64) -> Crowd<'a> {
        Crowd {
            site,
            expectations,
            seed,
            board: Board::default(),
            run_limit: None,
            next_run: AtomicUsize::new(0),
            ended_runs: AtomicUsize::new(0),
            is_closing: AtomicBool::new(false),
        }
    }

    /// Starts no more than `run_limit` runs.
    pub(crate) fn with_run_limit(mut self, run_limit: usize) -> Crowd<'a> {
        self.run_limit = Some(run_limit);
        self
    }

    /// Whether all runs of a limited number have ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.run_limit.is_some_and(|limit| self.ended_runs.load(Ordering::Relaxed) >= limit)
    }

    /// Drives runs while `disturb` does something to the servers, then lets them end on `last_server`, and judges them.
    pub(crate) fn disturb_runs(
        &self,
        disturb: impl FnOnce() -> Result<Server, String>,
        report: &mut CampaignReport,
    ) -> Result<(), String> {
        let clients = Mutex::new(Vec::new());
        let last_server = std::thread::scope(|scope| {
            for _ in 0..CLIENT_COUNT {
                scope.spawn(|| self.drive_runs(&clients));
            }
            let last_server = disturb();
            self.is_closing.store(true, Ordering::Relaxed);
            match last_server {
                Ok(_) => self.board.set_deadline(Instant::now() + LAST_RUN_TIMEOUT),
                Err(_) => self.board.stop(),
            }
            last_server
        })?;
        let clients = clients.into_inner();
        self.judge_all(&last_server, &clients, report)
    }

    /// Judges runs that have ended or should have.
    pub(crate) fn judge_all(
        &self,
        server: &Server,
        clients: &[(RunClient<'_>, bool)],
        report: &mut CampaignReport,
    ) -> Result<(), String> {
        let known = report.violations.len();
        report.runs += clients.len();
        report.requests = self.site.effects.request_count();
        for (client, has_ended) in clients {
            report.decisions += client.decisions.len();
            report.answers += client.answers.len();
            let violation = self.judge(server, client, *has_ended);
            report.violations.extend(violation.map(|violation| violation.to_string()));
        }
        let lost = |_: ConnectionLost| "the last server does not answer".to_owned();
        report.violations.extend(find_unfinished(server.address).map_err(lost)?);
        if report.violations.len() > known {
            report.violations.push(format!("the last server printed:\n{}", server.printed_lines()));
            let kept = self.site.keep_folder().map_err(|error| error.to_string())?;
            report.violations.push(format!("the folder of the runs was copied to {}", kept.display()));
        }
        Ok(())
    }

    fn drive_runs<'b>(&'b self, clients: &Mutex<Vec<(RunClient<'b>, bool)>>) {
        while self.run_limit.is_some() || !self.is_closing.load(Ordering::Relaxed) {
            let number = self.next_run.fetch_add(1, Ordering::Relaxed);
            if self.run_limit.is_some_and(|limit| number >= limit) {
                break;
            }
            let case = &CASES[number % CASES.len()];
            let tag = format!("run-{}-{:x}-{}", case.workflow, self.seed, number + 1);
            let random = Random::for_part(self.seed, &tag);
            let mut client = RunClient::new(case, tag, self.expectations.get(case.workflow), &self.board, random);
            if client.random.below(CANCEL_INTERVAL) == 0 {
                client.cancel = Some(PlannedCancel::after_events(client.random.below(MAX_EVENTS_BEFORE_CANCEL)));
            }
            let has_ended = client.run_to_end();
            self.ended_runs.fetch_add(1, Ordering::Relaxed);
            clients.lock().push((client, has_ended));
        }
    }

    fn judge(&self, server: &Server, client: &RunClient<'_>, has_ended: bool) -> Option<Violation> {
        let requests = self.site.effects.requests_of(&client.tag);
        let expectation = self.expectations.get(client.case.workflow)?;
        let mut problems = Vec::new();
        match has_ended {
            true => match judge_run(server.address, client, expectation, &self.site.effects) {
                Ok(found) => problems.extend(found),
                Err(ConnectionLost) => problems.push("the server does not answer".to_owned()),
            },
            false => {
                problems.push(format!("the run does not end; the last answer to a command: {}", client.last_answer));
                problems.extend(client.problems.clone());
            }
        }
        (!problems.is_empty()).then(|| Violation {
            what: problems.join("; "),
            tag: client.tag.clone(),
            run: client.run.clone(),
            events: client.seen.clone(),
            requests,
        })
    }
}

/// Kills servers `kills` times at random times.
pub fn kill_servers(database: DatabaseKind, seed: u64, kills: usize) -> Result<CampaignReport, String> {
    match Site::of_kind(database)? {
        Some(site) => kill_servers_of(&site, seed, kills),
        None => Ok(CampaignReport::default()),
    }
}

/// Kills servers `kills` times. The clock of each server is right, an hour slow or a day fast. A wait that became longer
/// by such a time would keep its run from ending.
pub fn kill_servers_and_set_clocks(database: DatabaseKind, seed: u64, kills: usize) -> Result<CampaignReport, String> {
    match Site::of_kind(database)? {
        Some(site) => kill_servers_of(&site.with_set_clocks(seed), seed, kills),
        None => Ok(CampaignReport::default()),
    }
}

fn kill_servers_of(site: &Site, seed: u64, kills: usize) -> Result<CampaignReport, String> {
    let started = Instant::now();
    let server_count = if matches!(site.database, Database::Postgres(_)) { 2 } else { 1 };
    let expectations = learn_expectations(site)?;
    let mut report = CampaignReport::default();
    let crowd = Crowd::new(site, &expectations, seed);
    let mut random = Random::for_part(seed, "kills");
    crowd.disturb_runs(
        || {
            let mut servers = Vec::new();
            for _ in 0..server_count {
                servers.push(start_listed(site, &crowd.board)?);
            }
            for _ in 0..kills {
                std::thread::sleep(random.duration(20, 600));
                let server: Server = servers.remove(random.below(servers.len()));
                crowd.board.remove(server.address);
                server.kill();
                servers.push(start_listed(site, &crowd.board)?);
            }
            let last = servers.pop().ok_or("no server is left")?;
            servers.iter().for_each(|server| crowd.board.remove(server.address));
            Ok(last)
        },
        &mut report,
    )?;
    report.kills = kills;
    report.duration = started.elapsed();
    Ok(report)
}

/// Starts a server and notifies the clients.
pub(crate) fn start_listed(site: &Site, board: &Board) -> Result<Server, String> {
    let server = site.start_server(None)?.ok_or("the server was killed by someone else")?;
    board.add(server.address);
    Ok(server)
}
