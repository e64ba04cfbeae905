//! The campaign from the command line: `chaos [--seed N] [--kills N] [PART …]`.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use chaos::{
    CampaignReport, DatabaseKind, FAILPOINTS, HITS, SCENARIOS, UNREACHED, kill_at_failpoints, kill_cluster,
    kill_commands, kill_servers, kill_servers_and_set_clocks,
};

/// The parts of a campaign that kill at random times.
const KILL_PARTS: [&str; 9] = [
    "sqlite-normal",
    "sqlite-full",
    "postgres",
    "restate-sqlite",
    "restate-postgres",
    "clock-sqlite",
    "clock-postgres",
    "terminal-normal",
    "terminal-full",
];

/// The other parts.
const OTHER_PARTS: [&str; 2] = ["failpoints", "faults"];

struct Options {
    seed: u64,
    kills: usize,
    parts: Vec<String>,
}

impl Options {
    /// The number of kills of each part that kills at random times.
    fn kill_share(&self) -> usize {
        self.kills.div_ceil(self.parts.iter().filter(|part| KILL_PARTS.contains(&part.as_str())).count().max(1))
    }
}

fn main() -> ExitCode {
    let options = match read_options(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!(
                "{problem}\nusage: chaos [--seed N] [--kills N] [PART …]\nparts: {}",
                all_parts().collect::<Vec<_>>().join(" ")
            );
            return ExitCode::from(2);
        }
    };
    println!("seed {}", options.seed);
    // A part mostly waits for processes to start, so all run at the same time.
    let is_held = std::thread::scope(|scope| {
        let parts: Vec<_> = options.parts.iter().map(|part| scope.spawn(|| is_part_held(part, &options))).collect();
        parts.into_iter().map(|part| part.join()).fold(true, |held, part| held & matches!(part, Ok(true)))
    });
    if is_held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn all_parts() -> impl Iterator<Item = &'static str> {
    KILL_PARTS.into_iter().chain(OTHER_PARTS)
}

/// Runs a part and prints its report; returns whether everything held.
fn is_part_held(part: &str, options: &Options) -> bool {
    match run_part(part, options) {
        Ok(report) => {
            print_report(part, options.seed, &report);
            let missing = describe_missing_kills(part, report.kills, options.kill_share());
            if let Some(missing) = &missing {
                println!("{missing}");
            }
            report.violations.is_empty() && missing.is_none()
        }
        Err(error) => {
            println!("{part}: {error}");
            false
        }
    }
}

/// Complains if a part has killed fewer processes than it should have, for example because a server is not installed.
fn describe_missing_kills(part: &str, kills: usize, wanted: usize) -> Option<String> {
    let is_short = KILL_PARTS.contains(&part) && kills < wanted;
    is_short.then(|| format!("{part}: FAILED: only {kills} of {wanted} kills were done"))
}

fn read_options(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    // A new seed for each campaign; the process id is as good as any.
    let mut options = Options { seed: u64::from(std::process::id()), kills: 1000, parts: Vec::new() };
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|text| text.parse::<u64>().ok());
        match argument.as_str() {
            "--seed" => options.seed = number().ok_or("--seed takes a number")?,
            "--kills" => options.kills = number().ok_or("--kills takes a number")? as usize,
            part if all_parts().any(|known| known == part) => options.parts.push(argument),
            other => return Err(format!("unknown argument: {other}")),
        }
    }
    if options.parts.is_empty() {
        options.parts = all_parts().map(str::to_owned).collect();
    }
    Ok(options)
}

/// Runs a part with its share of the kills.
fn run_part(part: &str, options: &Options) -> Result<CampaignReport, String> {
    let (seed, share) = (options.seed, options.kill_share());
    match part {
        "sqlite-normal" => kill_servers(DatabaseKind::SqliteNormal, seed, share),
        "sqlite-full" => kill_servers(DatabaseKind::SqliteFull, seed, share),
        "postgres" => kill_servers(DatabaseKind::Postgres, seed, share),
        "restate-sqlite" => kill_cluster(DatabaseKind::SqliteNormal, seed, share),
        "restate-postgres" => kill_cluster(DatabaseKind::Postgres, seed, share),
        "clock-sqlite" => kill_servers_and_set_clocks(DatabaseKind::SqliteNormal, seed, share),
        "clock-postgres" => kill_servers_and_set_clocks(DatabaseKind::Postgres, seed, share),
        "terminal-normal" => kill_commands("normal", seed, share),
        "terminal-full" => kill_commands("full", seed, share),
        "faults" => run_scenarios(seed),
        _ => {
            let (report, table) = kill_at_failpoints(seed, FAILPOINTS, &HITS)?;
            println!("{:26} {:14} {:14} {:14}\n{table}", "failpoint", "hit 1", "hit 2", "hit 5");
            UNREACHED.iter().for_each(|(name, reason)| println!("{name}: not reached, because {reason}"));
            Ok(report)
        }
    }
}

/// Runs every scenario, and prints a table of them.
fn run_scenarios(seed: u64) -> Result<CampaignReport, String> {
    let (mut all, mut rows) = (CampaignReport::default(), String::new());
    for (name, scenario) in SCENARIOS {
        let outcome = match scenario(seed)? {
            None => "SKIP: this machine cannot do it".to_owned(),
            Some(report) => {
                let outcome = match report.violations.len() {
                    0 => "held".to_owned(),
                    count => format!("{count} VIOLATED"),
                };
                let row = format!("{outcome} ({} runs, {:.0} s)", report.runs, report.duration.as_secs_f64());
                all.runs += report.runs;
                all.requests += report.requests;
                all.decisions += report.decisions;
                all.answers += report.answers;
                all.duration += report.duration;
                all.violations.extend(report.violations);
                row
            }
        };
        rows.push_str(&format!("{name:26} {outcome}\n"));
    }
    print!("{rows}");
    Ok(all)
}

fn print_report(part: &str, seed: u64, report: &CampaignReport) {
    for violation in &report.violations {
        println!("seed {seed}: {violation}");
    }
    let CampaignReport { kills, runs, requests, decisions, answers, violations, duration } = report;
    println!(
        "{part}: {kills} kills, {runs} runs, {requests} requests, {decisions} decisions, {answers} answers, \
         {} violations, {:.0} s",
        violations.len(),
        duration.as_secs_f64()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_kills_too_little_fails() {
        assert!(describe_missing_kills("restate-sqlite", 0, 100).is_some());
        assert_eq!(describe_missing_kills("restate-sqlite", 100, 100), None);
        assert_eq!(describe_missing_kills("faults", 0, 100), None);
    }

    #[test]
    fn kills_are_shared_among_the_parts_that_kill() {
        let options = |parts: &[&str]| read_options(parts.iter().map(|part| (*part).to_owned())).expect("valid");
        assert_eq!(options(&[]).kill_share(), 112);
        assert_eq!(options(&["--kills", "50", "postgres", "faults"]).kill_share(), 50);
    }
}
