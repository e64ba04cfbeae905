//! Kills servers at each named failpoint of the program.

use std::fmt::Write as _;
use std::ops::Range;
use std::time::{Duration, Instant};

use crate::campaign::{CampaignReport, Crowd, Expectations, learn_expectations, start_listed};
use crate::definitions::CASES;
use crate::program::{Database, DatabaseKind, Server, Site};
use crate::random::Random;

/// The failpoints of the program, as in `failpoint::hit("…")`.
pub const FAILPOINTS: &[&str] = &[
    "batch_written",
    "child_run_end_after",
    "child_run_start_before",
    "claim_after",
    "claim_before",
    "command_decision_after",
    "command_decision_before",
    "command_store_after",
    "command_store_before",
    "commit_now_after",
    "commit_now_before",
    "commit_queued_after",
    "commit_queued_before",
    "effect_dispatch_before",
    "effect_response_after",
    "finish_append_after",
    "intent_append_after",
    "intent_append_before",
    "lease_release_request",
    "lease_released_after",
    "memory_write_before",
    "publish_after",
    "publish_before",
    "resend_append_after",
    "retry_wait_before",
    "run_create_after",
    "run_finish_before",
    "run_release_before",
    "run_reopen_after",
    "run_resume_before",
    "session_claim_after",
    "session_claim_before",
    "suspend_before",
    "timer_set_after",
    "uncertain_append_after",
];

/// Failpoints that no run of the campaign reaches, each with the reason.
pub const UNREACHED: &[(&str, &str)] = &[
    ("session_claim_after", "only workers of Restate claim runs for sessions"),
    ("session_claim_before", "only workers of Restate claim runs for sessions"),
    ("timer_set_after", "no format has a step that waits for a time"),
];

/// The hits at which the process ends. Each one is tried on another kind of database.
pub const HITS: [usize; 3] = [1, 2, 5];

/// How often a failpoint is tried again that was not reached at any hit.
const MAX_EXTRA_ATTEMPTS: usize = 16;
/// How long a server with a failpoint runs at most. Usually its runs end before.
const FAILPOINT_TIMEOUT: Duration = Duration::from_secs(60);
/// How often it is checked whether the server has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Ends a server at each hit of each failpoint, in turn on SQLite with both durabilities and on Postgres with two servers.
/// Returns the figures with a table of failpoints and outcomes. It is a violation if a failpoint is never reached.
pub fn kill_at_failpoints(seed: u64, failpoints: &[&str], hits: &[usize]) -> Result<(CampaignReport, String), String> {
    let started = Instant::now();
    let mut sites = Vec::new();
    for kind in [DatabaseKind::SqliteNormal, DatabaseKind::SqliteFull, DatabaseKind::Postgres] {
        if let Some(site) = Site::of_kind(kind)? {
            let expectations = learn_expectations(&site)?;
            sites.push((site, expectations));
        }
    }
    let mut report = CampaignReport::default();
    let mut table = String::new();
    for (row, failpoint) in failpoints.iter().enumerate() {
        let _ = write!(table, "{failpoint:26}");
        let mut is_ever_reached = false;
        for (column, hit) in hits.iter().enumerate() {
            let seed = seed.wrapping_add((row * hits.len() + column + 1) as u64);
            let known = report.violations.len();
            let name = format!("{failpoint}:{hit}");
            let (site, expectations) = &sites[(row + column) % sites.len()];
            let is_reached = kill_at(site, expectations, seed, &name, 100..300, &mut report)?;
            is_ever_reached |= is_reached;
            let outcome = match (is_reached, report.violations.len() - known) {
                (false, 0) => "not reached".to_owned(),
                (true, 0) => "held".to_owned(),
                (_, count) => format!("{count} VIOLATED"),
            };
            let _ = write!(table, " {outcome:14}");
        }
        // A slow machine may need longer until an effect is in flight. On a fast one, what runs do only once may be over.
        let is_listed = UNREACHED.iter().any(|(name, _)| name == failpoint);
        for extra in 1..=MAX_EXTRA_ATTEMPTS {
            if !is_ever_reached && !is_listed {
                let (site, expectations) = &sites[extra % sites.len()];
                let seed = seed.wrapping_add(((extra + 1) * 1000 + row) as u64);
                let kill_ms = if extra % 2 == 0 { 100 * extra..300 * extra } else { 10..100 };
                is_ever_reached = kill_at(site, expectations, seed, failpoint, kill_ms, &mut report)?;
                let _ = write!(table, " {}", if is_ever_reached { "reached later" } else { "not reached" });
            }
        }
        if is_ever_reached == is_listed {
            let what = if is_ever_reached { "is reached, and listed as unreached" } else { "was not reached" };
            report.violations.push(format!("VIOLATION the failpoint {failpoint} {what}"));
        }
        table.push('\n');
    }
    report.duration = started.elapsed();
    Ok((report, table))
}

/// Kills a server after a random time, so that runs must be resumed; then the next one at the failpoint; then lets the runs
/// end. Returns whether the failpoint was reached.
fn kill_at(
    site: &Site,
    expectations: &Expectations,
    seed: u64,
    failpoint: &str,
    kill_ms: Range<usize>,
    report: &mut CampaignReport,
) -> Result<bool, String> {
    let crowd = Crowd::new(site, expectations, seed).with_run_limit(CASES.len());
    let mut is_reached = false;
    let disturb = || {
        // Servers that share a database: one of them stays.
        let staying = match &site.database {
            Database::Postgres(_) => Some(start_listed(site, &crowd.board)?),
            _ => None,
        };
        let first = start_listed(site, &crowd.board)?;
        std::thread::sleep(Random::for_part(seed, "kill").duration(kill_ms.start, kill_ms.end));
        crowd.board.remove(first.address);
        first.kill();
        match site.start_server(Some(failpoint))? {
            None => is_reached = true,
            Some(mut server) => {
                crowd.board.add(server.address);
                is_reached = wait_for_end(&mut server, &crowd);
                crowd.board.remove(server.address);
            }
        }
        staying.map_or_else(|| start_listed(site, &crowd.board), Ok)
    };
    crowd.disturb_runs(disturb, report)?;
    report.kills += 1 + usize::from(is_reached);
    Ok(is_reached)
}

/// Waits until the server has ended, or until no failpoint can be reached any more; returns whether it has.
fn wait_for_end(server: &mut Server, crowd: &Crowd<'_>) -> bool {
    let started = Instant::now();
    while !server.has_ended() {
        if crowd.has_ended() || started.elapsed() > FAILPOINT_TIMEOUT {
            return false;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    true
}
