//! Measures the engine on this machine, together with the floor: `cargo run --release -p bench [-- W1 W2 …]`.
//!
//! Every workload runs in its own process, so that its peak memory is its own. It alternates with its floor, so that
//! both experience the same minute of a noisy machine: the ratios are what counts. The public path is measured: a
//! definition is compiled, started and driven, its events go to one subscriber, and limits, budgets, timeouts and
//! retries are on.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod chats;
mod client;
mod definitions;
mod durable;
mod floor;
mod hostile;
mod measure;
mod report;
mod sandbox;
mod search;
mod serving;
mod slow_model;
mod talking_model;
mod workloads;
mod world;

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use measure::Row;

/// Error of a measurement.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

const WORKLOADS: [&str; 17] = [
    "W1", "W2", "W3", "W4", "W5", "W5d", "W6", "W7", "W8", "F1000", "M1000", "HTTP", "crowds", "chats", "hostile",
    "sandbox", "search",
];

/// Flag of a child process, which prints its rows as JSON.
const CHILD: &str = "--child";

/// The build's folder.
pub(crate) fn target() -> PathBuf {
    let own = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.parent()?.to_owned()));
    own.unwrap_or_else(|| PathBuf::from("target"))
}

fn main() -> ExitCode {
    if let Some(code) = flowloom_sandbox::worker_main(std::env::args_os()) {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.as_slice() {
        [flag, workload] if flag == CHILD => child(workload),
        [flag] if flag == serving::AXUM => bare(),
        chosen => parent(chosen),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Measures every selected workload in a process of its own.
fn parent(chosen: &[String]) -> Result<ExitCode, Failure> {
    if let Some(unknown) = chosen.iter().find(|name| !WORKLOADS.contains(&name.as_str())) {
        eprintln!("bench: unknown workload {unknown}; the workloads are {}", WORKLOADS.join(", "));
        return Ok(ExitCode::from(2));
    }
    let mut rows: Vec<Row> = Vec::new();
    for workload in WORKLOADS.iter().filter(|name| chosen.is_empty() || chosen.iter().any(|chosen| chosen == *name)) {
        eprintln!("{workload} …");
        let mut command = Command::new(std::env::current_exe()?);
        let output = command.args([CHILD, workload]).stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(format!("{workload} failed").into());
        }
        rows.append(&mut serde_json::from_slice(&output.stdout)?);
    }
    print!("{}", report::table(&rows));
    let file = target().join("bench.json");
    std::fs::write(&file, format!("{:#}\n", report::json(&rows)))?;
    println!("\n{}", file.display());
    Ok(ExitCode::SUCCESS)
}

/// Serves as the floor of the server until it is killed.
fn bare() -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serving::bare())?;
    Ok(ExitCode::SUCCESS)
}

/// Measures one workload and prints its rows as JSON.
fn child(workload: &str) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let rows = runtime.block_on(async {
        match workload {
            "W1" => workloads::w1().await,
            "W2" => workloads::w2().await,
            "W3" => workloads::w3().await,
            "W4" => workloads::w4().await,
            "W5" => workloads::w5().await,
            "W5d" => durable::w5_durable().await,
            "W6" => durable::w6().await,
            "W7" => durable::w7(),
            "W8" => {
                let mut rows = workloads::w8_in_memory().await?;
                rows.append(&mut durable::w8_durable().await?);
                Ok(rows)
            }
            "F1000" => workloads::f1000().await,
            "M1000" => workloads::m1000().await,
            "HTTP" => serving::http().await,
            "crowds" => serving::crowds().await,
            "chats" => chats::chats().await,
            "hostile" => Ok(hostile::compiled()),
            "sandbox" => sandbox::sandbox().await,
            "search" => search::search().await,
            other => Err(format!("unknown workload {other}").into()),
        }
    })?;
    println!("{}", serde_json::to_string(&rows)?);
    Ok(ExitCode::SUCCESS)
}
