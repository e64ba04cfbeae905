//! Faults other than kills: each is a scenario with a seed.

use std::fs;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::campaign::{CampaignReport, Crowd, learn_expectations, start_listed};
use crate::definitions::CASES;
use crate::http::{ConnectionLost, Request};
use crate::oracle::read_journal;
use crate::own_postgres::OwnPostgres;
use crate::program::{Database, DatabaseKind, Server, Site};
use crate::random::Random;

/// Number of runs of a scenario.
const RUN_COUNT: usize = 2 * CASES.len();
/// Number of commands that race for one question.
const RACER_COUNT: usize = 50;
/// `lease_ms` in `definitions/flowloom.toml`.
const LEASE_MS: usize = 1500;
/// How long a scenario waits for a state of the program.
const STATE_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A scenario. It returns `None` if this machine cannot do it.
pub type Scenario = fn(seed: u64) -> Result<Option<CampaignReport>, String>;

/// All scenarios, by name.
pub const SCENARIOS: &[(&str, Scenario)] = &[
    ("stop-postgres", |seed| interrupt_postgres("postgres", seed, [10..1000, 10..1000])),
    // Afterwards the leases of both servers have expired.
    ("outlast-leases", |seed| interrupt_postgres("outage", seed, [LEASE_MS + 500..LEASE_MS + 1500, 10..1000])),
    ("terminate-connections", terminate_connections),
    ("pause-worker", pause_worker),
    ("race-commands", race_commands),
    ("fill-disk", fill_disk),
];

/// Stops Postgres immediately, and starts it again, while two servers drive runs; once for each range of milliseconds.
fn interrupt_postgres(part: &str, seed: u64, outages_ms: [Range<usize>; 2]) -> Result<Option<CampaignReport>, String> {
    let Some(server) = OwnPostgres::start()? else { return Ok(None) };
    let site = Site::new(Database::OwnPostgres(server))?;
    let mut random = Random::for_part(seed, part);
    let report = disturb_pair(&site, seed, |_| {
        let Database::OwnPostgres(server) = &site.database else { return Ok(()) };
        for outage in outages_ms {
            std::thread::sleep(random.duration(100, 600));
            server.stop_at_once()?;
            std::thread::sleep(random.duration(outage.start, outage.end));
            server.start_again()?;
        }
        Ok(())
    })?;
    Ok(report.map(require_no_decisions))
}

/// No effect becomes uncertain if no server dies and none is paused.
fn require_no_decisions(mut report: CampaignReport) -> CampaignReport {
    if report.decisions > 0 {
        report.violations.push(format!("VIOLATION an outage made {} effects uncertain", report.decisions));
    }
    report
}

/// Closes all connections to Postgres several times while two servers drive runs.
fn terminate_connections(seed: u64) -> Result<Option<CampaignReport>, String> {
    let Some(site) = Site::of_kind(DatabaseKind::Postgres)? else { return Ok(None) };
    let mut random = Random::for_part(seed, "connections");
    let report = disturb_pair(&site, seed, |_| {
        let Database::Postgres(database) = &site.database else { return Ok(()) };
        for _ in 0..4 {
            std::thread::sleep(random.duration(50, 500));
            database.close_connections();
        }
        Ok(())
    })?;
    Ok(report.map(require_no_decisions))
}

/// Pauses one of two servers for longer than its lease. The other one reclaims its runs; then it continues.
fn pause_worker(seed: u64) -> Result<Option<CampaignReport>, String> {
    let Some(site) = Site::of_kind(DatabaseKind::Postgres)? else { return Ok(None) };
    let mut random = Random::for_part(seed, "pause");
    disturb_pair(&site, seed, |paused| {
        std::thread::sleep(random.duration(200, 800));
        paused.signal(Signal::STOP);
        std::thread::sleep(random.duration(LEASE_MS + 500, LEASE_MS + 1500));
        paused.signal(Signal::CONT);
        Ok(())
    })
}

/// Disturbs two servers of one Postgres, of which the first is left to itself afterwards.
fn disturb_pair(
    site: &Site,
    seed: u64,
    disturb: impl FnOnce(&Server) -> Result<(), String>,
) -> Result<Option<CampaignReport>, String> {
    let started = Instant::now();
    let expectations = learn_expectations(site)?;
    let crowd = Crowd::new(site, &expectations, seed).with_run_limit(RUN_COUNT);
    let mut report = CampaignReport::default();
    let mut first = None;
    crowd.disturb_runs(
        || {
            let server = start_listed(site, &crowd.board)?;
            let other = start_listed(site, &crowd.board)?;
            disturb(first.insert(server))?;
            Ok(other)
        },
        &mut report,
    )?;
    report.duration = started.elapsed();
    Ok(Some(report))
}

/// Sends many different answers to one question, to two servers at the same time. Exactly one is accepted.
fn race_commands(seed: u64) -> Result<Option<CampaignReport>, String> {
    let started = Instant::now();
    let Some(site) = Site::of_kind(DatabaseKind::Postgres)? else { return Ok(None) };
    let start = || site.start_server(None)?.ok_or_else(|| "the server was killed by someone else".to_owned());
    let servers = [start()?, start()?];
    let lost = |_: ConnectionLost| "the server does not answer".to_owned();
    let body = json!({"workflow": "ask", "inputs": format!("run-race-{seed:x}")});
    let target = "/api/v1/runs?wait=20";
    let (_, state) = Request::post(target, None, Some(&body)).send_json(servers[0].address).map_err(lost)?;
    let run = state["run_id"].as_str().filter(|_| state["status"] == "waiting");
    let run = run.ok_or_else(|| format!("the run does not wait: {state}"))?.to_owned();
    let mut statuses: Vec<(u16, usize)> = std::thread::scope(|scope| {
        let racers = (0..RACER_COUNT).map(|number| {
            let (address, target) = (servers[number % 2].address, format!("/api/v1/runs/{run}/answer"));
            scope.spawn(move || {
                let body = json!({"path": "/more[0]", "value": format!("racer {number}")});
                Request::post(&target, None, Some(&body))
                    .send_json(address)
                    .map_or((0, number), |(status, _)| (status, number))
            })
        });
        let racers: Vec<_> = racers.collect();
        racers.into_iter().filter_map(|racer| racer.join().ok()).collect()
    });
    statuses.sort_unstable();
    let accepted: Vec<usize> =
        statuses.iter().filter(|(status, _)| matches!(status, 200 | 202)).map(|(_, number)| *number).collect();
    let journal = read_journal(servers[1].address, &run).map_err(lost)?;
    let is_first = |event: &&Value| event["event"] == "answered" && event["path"] == "/more[0]";
    let answers: Vec<&Value> = journal.iter().filter(is_first).collect();
    let is_held = accepted.len() == 1
        && answers.len() == 1
        && answers[0]["data"]["value"] == format!("racer {}", accepted[0])
        && statuses.iter().all(|(status, _)| matches!(status, 200 | 202 | 409));
    let mut report = CampaignReport { runs: 1, answers: answers.len(), ..CampaignReport::default() };
    if !is_held {
        report.violations.push(format!(
            "VIOLATION {RACER_COUNT} answers: accepted {accepted:?}, recorded {answers:?}, statuses {statuses:?}"
        ));
    }
    report.duration = started.elapsed();
    Ok(Some(report))
}

/// Fills the disk of a server while it drives runs, and frees it again.
fn fill_disk(seed: u64) -> Result<Option<CampaignReport>, String> {
    let started = Instant::now();
    let site = Site::new(Database::Sqlite("normal"))?;
    let Some(disk) = SmallDisk::mount(site.folder.path().join("data"))? else { return Ok(None) };
    let expectations = learn_expectations(&site)?;
    let crowd = Crowd::new(&site, &expectations, seed).with_run_limit(RUN_COUNT);
    let mut random = Random::for_part(seed, "disk");
    let mut report = CampaignReport::default();
    let mut problems = Vec::new();
    let disturbed = crowd.disturb_runs(
        || {
            let server = start_listed(&site, &crowd.board)?;
            std::thread::sleep(random.duration(50, 400));
            disk.fill()?;
            problems = check_full(&server, seed);
            disk.free()?;
            Ok(server)
        },
        &mut report,
    );
    disturbed?;
    report.violations.extend(problems);
    report.duration = started.elapsed();
    Ok(Some(report))
}

/// A server whose disk is full refuses runs with 507 and still answers questions about runs.
fn check_full(server: &Server, seed: u64) -> Vec<String> {
    let started = Instant::now();
    let mut number = 0;
    let mut last = 0;
    while started.elapsed() < STATE_TIMEOUT {
        number += 1;
        let body = json!({"workflow": "lookup", "inputs": {"tag": format!("run-disk-{seed:x}-{number}")}});
        match Request::post("/api/v1/runs", None, Some(&body)).send_json(server.address) {
            Ok((507, _)) => {
                return match Request::get("/api/v1/runs?limit=1").send_json(server.address) {
                    Ok((200, _)) => Vec::new(),
                    other => vec![format!(
                        "VIOLATION a full disk: the list of runs is {:?}",
                        other.map(|(status, _)| status)
                    )],
                };
            }
            Ok((status, _)) => last = status,
            Err(ConnectionLost) => last = 0,
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    vec![format!("VIOLATION a full disk: a new run is answered with {last}, not with 507")]
}

/// A small file system in memory.
struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    /// Mounts it, as root or with `sudo`; `None` if this user may not. Fails if root may not and nothing may be skipped.
    fn mount(folder: PathBuf) -> Result<Option<SmallDisk>, String> {
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let own = fs::metadata(&folder).map_err(|error| error.to_string())?;
        let options = format!("size=12m,mode=700,uid={},gid={}", own.uid(), own.gid());
        let is_required = own.uid() == 0 && std::env::var_os("FLOWLOOM_REQUIRE_POSTGRES").is_some();
        match run_as_root("mount", &["-t", "tmpfs", "-o", &options, "tmpfs"], &folder) {
            true => Ok(Some(SmallDisk { folder })),
            false if is_required => Err("root cannot mount a small disk".to_owned()),
            false => Ok(None),
        }
    }

    /// Takes all space that is left.
    fn fill(&self) -> Result<(), String> {
        use std::io::Write as _;
        let mut file = fs::File::create(self.folder.join("filler")).map_err(|error| error.to_string())?;
        while file.write_all(&[0; 4096]).is_ok() {}
        Ok(())
    }

    fn free(&self) -> Result<(), String> {
        fs::remove_file(self.folder.join("filler")).map_err(|error| error.to_string())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The processes that used it are gone; a lazy unmount does not fail.
        run_as_root("umount", &["-l"], &self.folder);
    }
}

/// Runs a command on a folder; if that fails, with `sudo`. Returns whether it succeeded.
fn run_as_root(name: &str, arguments: &[&str], folder: &Path) -> bool {
    let succeeds = |words: &[&str]| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(arguments).arg(folder).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    succeeds(&[name]) || succeeds(&["sudo", "-n", name])
}
