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
mod fairness;
mod floor;
mod hostile;
mod limits;
mod local_model;
mod measure;
mod peers;
mod report;
mod sandbox;
mod scale;
mod search;
mod serving;
mod shared_database;
mod slow_model;
mod streaming_model;
mod tests_of_workflows;
mod workloads;
mod world;

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use measure::ReportRow;

/// The allocator of the program.
#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Error of a measurement.
pub(crate) type BenchError = Box<dyn std::error::Error + Send + Sync>;

const WORKLOAD_NAMES: [&str; 24] = [
    "W1", "W2", "W3", "W4", "W5", "W5d", "W6", "W7", "W8", "F1000", "M1000", "HTTP", "postgres", "crowds", "chats",
    "hostile", "sandbox", "fairness", "limits", "search", "local", "scale", "restate", "tests",
];

/// Flag of a child process, which prints its rows as JSON.
const CHILD_FLAG: &str = "--child";

/// The build's folder.
pub(crate) fn build_folder() -> PathBuf {
    let own = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.parent()?.to_owned()));
    own.unwrap_or_else(|| PathBuf::from("target"))
}

fn main() -> ExitCode {
    if let Some(code) = flowloom_sandbox::worker_main(std::env::args_os()) {
        return code;
    }
    if let Some(code) = flowloom_models_local::worker_main(std::env::args_os()) {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.as_slice() {
        [flag, workload] if flag == CHILD_FLAG => run_child(workload),
        [flag] if flag == serving::AXUM_FLAG => run_bare_server(),
        [flag, workload] if flag == peers::PEERS_CHILD_FLAG => run_peers_child(workload),
        [peers, chosen @ ..] if peers == "peers" => peers::run_peers(chosen),
        chosen => run_parent(chosen),
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
fn run_parent(chosen: &[String]) -> Result<ExitCode, BenchError> {
    if let Some(unknown) = chosen.iter().find(|name| !WORKLOAD_NAMES.contains(&name.as_str())) {
        eprintln!("bench: unknown workload {unknown}; the workloads are {}", WORKLOAD_NAMES.join(", "));
        return Ok(ExitCode::from(2));
    }
    let mut rows: Vec<ReportRow> = Vec::new();
    let is_chosen = |name: &&str| chosen.is_empty() || chosen.iter().any(|chosen| chosen == name);
    for workload in WORKLOAD_NAMES.into_iter().filter(is_chosen) {
        eprintln!("{workload} …");
        let mut command = Command::new(std::env::current_exe()?);
        let output = command.args([CHILD_FLAG, workload]).stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(format!("{workload} failed").into());
        }
        rows.append(&mut serde_json::from_slice(&output.stdout)?);
    }
    print!("{}", report::format_table(&rows));
    let file = build_folder().join("bench.json");
    std::fs::write(&file, format!("{:#}\n", report::to_json(&rows)))?;
    println!("\n{}", file.display());
    Ok(ExitCode::SUCCESS)
}

/// Serves as the floor of the server until it is killed.
fn run_bare_server() -> Result<ExitCode, BenchError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serving::serve_bare())?;
    Ok(ExitCode::SUCCESS)
}

/// Measures one workload of the peers and prints its rows as JSON.
fn run_peers_child(workload: &str) -> Result<ExitCode, BenchError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(peers::run_peers_child(workload))
}

/// Measures one workload and prints its rows as JSON.
fn run_child(workload: &str) -> Result<ExitCode, BenchError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let rows = runtime.block_on(async {
        match workload {
            "W1" => workloads::measure_w1().await,
            "W2" => workloads::measure_w2().await,
            "W3" => workloads::measure_w3().await,
            "W4" => workloads::measure_w4().await,
            "W5" => workloads::measure_w5().await,
            "W5d" => durable::measure_w5_durable().await,
            "W6" => durable::measure_w6().await,
            "W7" => durable::measure_w7(),
            "W8" => {
                let mut rows = workloads::measure_w8_in_memory().await?;
                rows.append(&mut durable::measure_w8_durable().await?);
                Ok(rows)
            }
            "F1000" => workloads::measure_f1000().await,
            "M1000" => workloads::measure_m1000().await,
            "HTTP" => serving::measure_http().await,
            "postgres" => shared_database::measure_shared_database().await,
            "crowds" => serving::measure_crowds().await,
            "chats" => chats::measure_chats().await,
            "hostile" => Ok(hostile::measure_hostile()),
            "scale" => scale::measure_scale().await,
            "restate" => scale::measure_beside_restate().await,
            "sandbox" => sandbox::measure_sandbox().await,
            "fairness" => fairness::measure_fairness().await,
            "limits" => limits::measure_limits().await,
            "tests" => tests_of_workflows::measure_tests(),
            "search" => search::measure_search().await,
            "local" => local_model::measure_local_model().await,
            other => Err(format!("unknown workload {other}").into()),
        }
    })?;
    println!("{}", serde_json::to_string(&rows)?);
    Ok(ExitCode::SUCCESS)
}
