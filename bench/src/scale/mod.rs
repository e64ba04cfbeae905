//! The engines side by side: SQLite, servers on one Postgres, workers of Restate. See docs/scale.md.

mod bare;
mod cluster;
mod load;

use std::time::{Duration, Instant};

use cluster::{Cluster, EngineKind, RUN_STEPS, folder_bytes};
use load::{RunRequests, measure_runs};
use serde_json::json;

use crate::BenchError;
use crate::measure::ReportRow;

const ENGINES: [EngineKind; 7] = [
    EngineKind::Sqlite,
    EngineKind::Postgres(1),
    EngineKind::Postgres(2),
    EngineKind::Postgres(4),
    EngineKind::Restate(1),
    EngineKind::Restate(2),
    EngineKind::Restate(4),
];

/// Engines whose waiting runs and takeover are measured.
const SINGLE_ENGINES: [EngineKind; 3] = [EngineKind::Sqlite, EngineKind::Postgres(1), EngineKind::Restate(1)];

/// Connections of the load, and runs of one measurement.
const LOAD_CONNECTIONS: usize = 32;
const LOAD_RUNS: usize = 1600;

/// Runs that are measured one after another.
const SINGLE_RUNS: usize = 200;

/// Runs that wait for a person.
const WAITING_RUNS: usize = 10_000;

/// Measures every engine. One that is not installed is a row.
pub(crate) async fn measure_scale() -> Result<Vec<ReportRow>, BenchError> {
    let mut rows = Vec::new();
    for kind in ENGINES {
        eprintln!("  {} …", kind.name());
        let measured = measure_engine(kind).await;
        rows.extend(measured.unwrap_or_else(|error| vec![missing_row(kind, &error)]));
    }
    for kind in SINGLE_ENGINES {
        eprintln!("  waiting runs, {} …", kind.name());
        let measured = measure_waiting(kind).await;
        rows.extend(measured.unwrap_or_else(|error| vec![missing_row(kind, &error)]));
    }
    for kind in [EngineKind::Postgres(1), EngineKind::Restate(1)] {
        eprintln!("  takeover, {} …", kind.name());
        let measured = measure_takeover(kind).await;
        rows.push(measured.unwrap_or_else(|error| missing_row(kind, &error)));
    }
    Ok(rows)
}

/// Compares runs on Restate with Restate alone.
pub(crate) async fn measure_beside_restate() -> Result<Vec<ReportRow>, BenchError> {
    let measured = bare::measure_beside_bare().await;
    Ok(measured.unwrap_or_else(|error| vec![missing_row(EngineKind::Restate(1), &error)]))
}

fn row_of(kind: EngineKind, what: &str, n: usize) -> ReportRow {
    ReportRow::new("scale", &format!("{}: {what}", kind.name()), n)
}

fn missing_row(kind: EngineKind, why: &BenchError) -> ReportRow {
    row_of(kind, &format!("not measured: {why}"), 0)
}

/// Throughput, latency and memory.
async fn measure_engine(kind: EngineKind) -> Result<Vec<ReportRow>, BenchError> {
    let cluster = Cluster::start(kind).await?;
    let addresses: Vec<_> = cluster.servers.iter().map(|server| server.address).collect();
    let runs = RunRequests::same("/api/v1/runs?wait=30", &json!({"workflow": "ten", "inputs": "hi"}).to_string());
    measure_runs(&addresses, &runs, LOAD_CONNECTIONS, LOAD_RUNS / 4).await?;
    let loaded = measure_runs(&addresses, &runs, LOAD_CONNECTIONS, LOAD_RUNS).await?;
    let single = measure_runs(&addresses, &runs, 1, SINGLE_RUNS).await?;
    let memory = |programs| Cluster::memory_mb(programs, "VmRSS");
    let mut rows = vec![
        row_of(kind, "steps/s", LOAD_RUNS).with_value(loaded.rate() * RUN_STEPS as f64),
        row_of(kind, "p50 of a 10-step run alone, ms", SINGLE_RUNS).with_value(single.quantile_ms(0.5)),
        row_of(kind, "p99 of a 10-step run alone, ms", SINGLE_RUNS).with_value(single.quantile_ms(0.99)),
        row_of(kind, "p99 of a 10-step run under that load, ms", LOAD_RUNS).with_value(loaded.quantile_ms(0.99)),
        row_of(kind, "from request to first effect, ms", START_RUNS).with_value(measure_start(&cluster).await?),
        row_of(kind, "memory of the servers, MB", cluster.servers.len()).with_value(memory(&cluster.servers)),
    ];
    if !cluster.workers.is_empty() {
        let count = cluster.workers.len();
        rows.push(row_of(kind, "memory of the workers, MB", count).with_value(memory(&cluster.workers)));
    }
    Ok(rows)
}

/// Runs whose start is measured.
const START_RUNS: usize = 50;

/// Median time from sending the request that starts a run until its first step calls its model, in milliseconds.
async fn measure_start(cluster: &Cluster) -> Result<f64, BenchError> {
    let body = json!({"workflow": "slow", "inputs": "hi"}).to_string();
    let mut times = Vec::new();
    for index in 0..START_RUNS {
        let since = Instant::now();
        cluster.call_api("POST", "/api/v1/runs", &body).await?;
        cluster.model.wait_for_requests(index + 1).await;
        times.push(since.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// Memory and disk of runs that wait for a person.
async fn measure_waiting(kind: EngineKind) -> Result<Vec<ReportRow>, BenchError> {
    let cluster = Cluster::start(kind).await?;
    let addresses: Vec<_> = cluster.servers.iter().map(|server| server.address).collect();
    let body = json!({"workflow": "ask", "inputs": "hi"}).to_string();
    let runs = RunRequests::waiting("/api/v1/runs?wait=30", &body);
    measure_runs(&addresses, &runs, LOAD_CONNECTIONS, 320).await?;
    let before = (Cluster::memory_mb(&cluster.servers, "VmRSS"), Cluster::memory_mb(&cluster.workers, "VmRSS"));
    let (database, journal) = (cluster.database_bytes()?, restate_bytes(&cluster)?);
    measure_runs(&addresses, &runs, LOAD_CONNECTIONS, WAITING_RUNS).await?;
    let after = (Cluster::memory_mb(&cluster.servers, "VmRSS"), Cluster::memory_mb(&cluster.workers, "VmRSS"));
    let memory = (after.0 - before.0 + after.1 - before.1) * 1e6;
    let each = |bytes: f64| bytes / WAITING_RUNS as f64;
    let mut rows = vec![
        row_of(kind, "memory of a waiting run in our processes, bytes", WAITING_RUNS).with_value(each(memory)),
        row_of(kind, "database of a waiting run, bytes", WAITING_RUNS)
            .with_value(each(cluster.database_bytes()? - database)),
    ];
    if cluster.restate.is_some() {
        let bytes = each(restate_bytes(&cluster)? - journal);
        rows.push(row_of(kind, "Restate's disk for a waiting run, bytes", WAITING_RUNS).with_value(bytes));
    }
    Ok(rows)
}

fn restate_bytes(cluster: &Cluster) -> Result<f64, BenchError> {
    cluster.restate.as_ref().map_or(Ok(0.0), |restate| folder_bytes(&restate.data_folder()))
}

/// How long an interrupted model call may take to be sent again.
const TAKEOVER_TIMEOUT: Duration = Duration::from_secs(120);

/// Time from killing what drives a run until another process sends its model call again.
async fn measure_takeover(kind: EngineKind) -> Result<ReportRow, BenchError> {
    let mut times = Vec::new();
    for _ in 0..3 {
        let mut cluster = Cluster::start(kind).await?;
        cluster.call_api("POST", "/api/v1/runs", &json!({"workflow": "slow", "inputs": "hi"}).to_string()).await?;
        cluster.model.wait_for_requests(1).await;
        let killed = match kind {
            EngineKind::Restate(_) => {
                cluster.start_worker()?;
                cluster.workers.remove(0)
            }
            _ => {
                cluster.start_server()?;
                cluster.servers.remove(0)
            }
        };
        let since = Instant::now();
        drop(killed);
        tokio::time::timeout(TAKEOVER_TIMEOUT, cluster.model.wait_for_requests(2)).await?;
        times.push(since.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(row_of(kind, "from kill -9 to the call being sent again, ms", times.len()).with_value(times[1]))
}
