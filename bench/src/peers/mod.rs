//! The engine compared with other systems for the same work: `make bench PEERS=1`. The peers take turns with ours, so
//! that all experience the same minutes of the machine. bench/peers has their drivers.

mod bare_restate;
mod driver;
mod ours;
mod table;

use std::process::{Command, ExitCode, Stdio};

use serde::{Deserialize, Serialize};

use crate::BenchError;
use crate::measure::SampleStats;

use bare_restate::BarePeer;
pub(crate) use bare_restate::{BareService, socket_address};
use driver::Driver;
use ours::OurWorkload;

/// Repetitions of each workload, after those that warm up.
const REPETITIONS: usize = 7;
const WARM_UP: usize = 2;

/// Flag of the process that measures one workload.
pub(crate) const PEERS_CHILD_FLAG: &str = "--peers-child";

/// A workload, and the peers that have the feature that it needs.
struct PeerWorkload {
    name: &'static str,
    what: &'static str,
    n: usize,
    /// How ours stores it.
    ours: &'static str,
    /// The peers, with how they store it.
    peers: &'static [(&'static str, &'static str)],
}

const IN_MEMORY: &[(&str, &str)] =
    &[("graph-flow", "memory"), ("agno", "memory"), ("mastra", "memory"), ("langgraph", "memory")];

const WORKLOADS: [PeerWorkload; 11] = [
    PeerWorkload { name: "W1", what: "chain of 100 steps", n: 100, ours: "memory", peers: IN_MEMORY },
    PeerWorkload { name: "W2", what: "walk of 1000 nodes round a cycle", n: 1000, ours: "memory", peers: IN_MEMORY },
    PeerWorkload { name: "W3", what: "1 to 1000 to 1", n: 1000, ours: "memory", peers: IN_MEMORY },
    PeerWorkload { name: "W4", what: "1 to 1000 x 50 ms to 1", n: 1000, ours: "memory", peers: IN_MEMORY },
    PeerWorkload { name: "W5", what: "1000 runs x 10 steps x 20 ms", n: 1000, ours: "memory", peers: IN_MEMORY },
    PeerWorkload {
        name: "W5-stored",
        what: "the same, every step stored with fsync",
        n: 1000,
        ours: "SQLite FULL",
        peers: &[("restate", "its own log")],
    },
    PeerWorkload {
        name: "W6-sqlite",
        what: "chain of 100 steps, every step stored",
        n: 100,
        ours: "SQLite NORMAL",
        peers: &[
            ("langgraph", "AsyncSqliteSaver, NORMAL"),
            ("mastra", "LibSQL"),
            ("dbos", "SQLite, as it sets it up"),
            ("restate", "its own log"),
        ],
    },
    PeerWorkload {
        name: "W6-postgres",
        what: "chain of 100 steps, every step stored",
        n: 100,
        ours: "Postgres, fsync off",
        peers: &[("graph-flow", "the same"), ("langgraph", "the same"), ("dbos", "the same")],
    },
    PeerWorkload {
        name: "W7",
        what: "start of a process that runs one step",
        n: 1,
        ours: "SQLite",
        peers: &[
            ("graph-flow", "memory"),
            ("agno", "memory"),
            ("mastra", "memory"),
            ("langgraph", "memory"),
            ("dbos", "SQLite"),
        ],
    },
    PeerWorkload {
        name: "W8",
        what: "1000 steps, each adds 1 KB to the state",
        n: 1000,
        ours: "memory",
        peers: &[("graph-flow", "memory"), ("mastra", "memory"), ("langgraph", "memory")],
    },
    PeerWorkload {
        name: "W8-sqlite",
        what: "300 steps, each adds 1 KB, every step stored",
        n: 300,
        ours: "SQLite NORMAL",
        peers: &[
            ("langgraph", "AsyncSqliteSaver, NORMAL"),
            ("mastra", "LibSQL"),
            ("dbos", "SQLite, as it sets it up"),
            ("restate", "its own log"),
        ],
    },
];

/// One measured system on one workload.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PeerRow {
    workload: String,
    what: String,
    peer: String,
    version: String,
    stored: String,
    /// Duration of one repetition, or why there is none.
    seconds: Result<SampleStats, String>,
    /// Its time divided by ours.
    ratio: Option<f64>,
    /// Peak memory in MB, where the peer is one process.
    peak_mb: Option<f64>,
}

/// Measures the chosen workloads, each in a process of its own, and prints the table.
pub(crate) fn run_peers(chosen: &[String]) -> Result<ExitCode, BenchError> {
    let is_chosen = |name: &str| chosen.is_empty() || chosen.iter().any(|chosen| chosen == name);
    let mut rows: Vec<PeerRow> = Vec::new();
    for workload in WORKLOADS.iter().filter(|workload| is_chosen(workload.name)) {
        eprintln!("{} …", workload.name);
        let mut command = Command::new(std::env::current_exe()?);
        let output = command.args([PEERS_CHILD_FLAG, workload.name]).stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(format!("{} failed", workload.name).into());
        }
        rows.append(&mut serde_json::from_slice(&output.stdout)?);
    }
    print!("{}", table::format_table(&rows));
    let file = crate::build_folder().join("peers.json");
    std::fs::write(&file, serde_json::to_string_pretty(&rows)?)?;
    println!("\n{}", file.display());
    Ok(ExitCode::SUCCESS)
}

/// Measures one workload and prints its rows as JSON.
pub(crate) async fn run_peers_child(name: &str) -> Result<ExitCode, BenchError> {
    let workload = WORKLOADS.iter().find(|workload| workload.name == name).ok_or("unknown workload")?;
    println!("{}", serde_json::to_string(&measure_workload(workload).await?)?);
    Ok(ExitCode::SUCCESS)
}

/// One of the systems that take turns.
enum Contender {
    Driver(Driver),
    Restate(BarePeer),
}

impl Contender {
    async fn prepare(peer: &str, workload: &PeerWorkload) -> Result<Contender, BenchError> {
        match peer {
            "restate" => Ok(Contender::Restate(BarePeer::prepare(workload.name, workload.n).await?)),
            _ => Ok(Contender::Driver(Driver::prepare(peer, workload.name, workload.n)?)),
        }
    }

    fn version(&self) -> String {
        match self {
            Contender::Driver(driver) => driver.version.clone(),
            Contender::Restate(_) => bare_restate::VERSION.to_owned(),
        }
    }

    async fn run_once(&mut self) -> Result<f64, BenchError> {
        match self {
            Contender::Driver(driver) => driver.run_once(),
            Contender::Restate(peer) => peer.run_once().await,
        }
    }

    fn peak_mb(&self) -> Option<f64> {
        match self {
            Contender::Driver(driver) => driver.peak_mb(),
            Contender::Restate(_) => None,
        }
    }
}

async fn measure_workload(workload: &PeerWorkload) -> Result<Vec<PeerRow>, BenchError> {
    let ours = OurWorkload::prepare(workload.name, workload.n)?;
    let mut peers: Vec<Result<(Contender, Vec<f64>), String>> = Vec::new();
    for (peer, _) in workload.peers {
        let contender = Contender::prepare(peer, workload).await;
        peers.push(contender.map(|contender| (contender, Vec::new())).map_err(|error| error.to_string()));
    }
    let mut our_times = Vec::new();
    for turn in 0..WARM_UP + REPETITIONS {
        let seconds = ours.run_once().await?;
        our_times.extend((turn >= WARM_UP).then_some(seconds));
        for peer in &mut peers {
            let Ok((contender, times)) = peer else { continue };
            match contender.run_once().await {
                Ok(seconds) => times.extend((turn >= WARM_UP).then_some(seconds)),
                Err(error) => *peer = Err(error.to_string()),
            }
        }
    }
    let mine = SampleStats::from_seconds(our_times);
    let row = |peer: &str, stored: &str| PeerRow {
        workload: workload.name.to_owned(),
        what: workload.what.to_owned(),
        peer: peer.to_owned(),
        version: String::new(),
        stored: stored.to_owned(),
        seconds: Ok(mine),
        ratio: None,
        peak_mb: None,
    };
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let mut rows = vec![PeerRow { version, peak_mb: ours.peak_mb(), ..row("flowloom", workload.ours) }];
    for ((name, stored), peer) in workload.peers.iter().zip(peers) {
        let row = row(name, stored);
        rows.push(match peer {
            Err(why) => PeerRow { seconds: Err(why), ..row },
            Ok((contender, times)) => {
                let stats = SampleStats::from_seconds(times);
                let (ratio, version) = (Some(stats.median / mine.median), contender.version());
                PeerRow { seconds: Ok(stats), ratio, version, peak_mb: contender.peak_mb(), ..row }
            }
        });
    }
    Ok(rows)
}
