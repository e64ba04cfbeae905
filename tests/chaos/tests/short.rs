//! A short campaign: what `make chaos` does at length.

use std::sync::Mutex;

use chaos::{
    CampaignReport, DatabaseKind, FAILPOINTS, SCENARIOS, kill_at_failpoints, kill_cluster, kill_commands, kill_servers,
    kill_servers_and_set_clocks,
};

/// The seed of the short campaign. `make chaos` chooses others.
const SEED: u64 = 16;

/// Campaigns of one process take turns, because several at the same time would slow each other down.
static TURN: Mutex<()> = Mutex::new(());

fn check(report: Result<CampaignReport, String>) {
    let report = report.expect("the campaign runs");
    assert!(report.violations.is_empty(), "seed {SEED}:\n{}", report.violations.join("\n"));
}

#[test]
fn killed_servers_on_sqlite_keep_their_promises() {
    let _turn = TURN.lock();
    check(kill_servers(DatabaseKind::SqliteNormal, SEED, 15));
    check(kill_servers(DatabaseKind::SqliteFull, SEED, 15));
}

#[test]
fn killed_servers_on_postgres_keep_their_promises() {
    let _turn = TURN.lock();
    check(kill_servers(DatabaseKind::Postgres, SEED, 15));
}

#[test]
fn a_killed_cluster_keeps_its_promises() {
    let _turn = TURN.lock();
    check(kill_cluster(DatabaseKind::SqliteNormal, SEED, 10));
    check(kill_cluster(DatabaseKind::Postgres, SEED, 10));
}

#[test]
fn servers_with_wrong_clocks_keep_their_promises() {
    let _turn = TURN.lock();
    check(kill_servers_and_set_clocks(DatabaseKind::SqliteNormal, SEED, 10));
    check(kill_servers_and_set_clocks(DatabaseKind::Postgres, SEED, 10));
}

#[test]
fn killed_commands_keep_their_promises() {
    let _turn = TURN.lock();
    check(kill_commands("normal", SEED, 15));
}

#[test]
fn a_server_killed_at_a_failpoint_keeps_its_promises() {
    let _turn = TURN.lock();
    let (report, table) =
        kill_at_failpoints(SEED, &["effect_dispatch_before", "commit_queued_after"], &[1]).expect("the campaign runs");
    assert!(report.violations.is_empty(), "{table}\n{}", report.violations.join("\n"));
    assert_eq!(table.matches(" held").count(), 2, "{table}");
}

#[test]
fn disturbed_servers_keep_their_promises() {
    let _turn = TURN.lock();
    for (name, scenario) in SCENARIOS {
        let report = scenario(SEED).expect("the scenario runs").unwrap_or_default();
        assert!(report.violations.is_empty(), "{name}, seed {SEED}:\n{}", report.violations.join("\n"));
    }
}

#[test]
fn every_failpoint_of_the_program_is_listed() {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates");
    let mut found = Vec::new();
    collect_failpoints(&crates, &mut found);
    found.sort();
    assert_eq!(found, FAILPOINTS);
}

fn collect_failpoints(folder: &std::path::Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect_failpoints(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source file");
            let names = text.split("failpoint::hit(\"").skip(1).filter_map(|rest| rest.split('"').next());
            found.extend(names.map(str::to_owned));
        }
    }
}
