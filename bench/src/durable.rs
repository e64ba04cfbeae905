//! The workloads on SQLite, and the cold start of the program.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flowloom_store::{Durability, Store};
use tempfile::TempDir;

use crate::BenchError;
use crate::definitions::{CompiledDefinition, definitions_folder, load_definition};
use crate::measure::{ReportRow, SampleStats, measure_in_turns};
use crate::workloads::{FAST_REPETITIONS, SLOW_REPETITIONS, add_linearity, measure_many_runs, time_run};
use crate::{floor, world};

/// A new folder on the disk of the build, because `/tmp` may be in memory.
pub(crate) fn scratch_folder() -> Result<TempDir, BenchError> {
    let target = crate::build_folder().join("bench");
    std::fs::create_dir_all(&target)?;
    Ok(TempDir::new_in(target)?)
}

/// A timed run on a store.
async fn time_stored_run(store: &Arc<Store>, definition: &Arc<CompiledDefinition>) -> Result<f64, BenchError> {
    store.hold_bundle(&definition.text);
    time_run(world::new_engine(store.clone()), definition).await
}

/// Every step is stored: compared with one insert and commit of a 200 byte row, and counted.
pub(crate) async fn measure_w6() -> Result<Vec<ReportRow>, BenchError> {
    let n = 100;
    let definition = Arc::new(load_definition("chain.steps.json", n)?);
    let mut rows = Vec::new();
    for (synchronous, durability) in [("NORMAL", Durability::Normal), ("FULL", Durability::Full)] {
        let folder = scratch_folder()?;
        let store = Store::open(folder.path(), durability)?;
        let mut bare = floor::RowTable::open(folder.path(), synchronous)?;
        let repetitions = if durability == Durability::Full { SLOW_REPETITIONS } else { FAST_REPETITIONS };
        let (ours, floor) = measure_in_turns(
            repetitions,
            async || time_stored_run(&store, &definition).await,
            async || bare.insert_with_commits(n, 200),
        )
        .await?;
        let row = ReportRow::new("W6", &format!("chain on SQLite {synchronous}, per step"), n);
        let row = row.with_samples(ours, Some(floor), n);
        let ratio = ours.median / floor.median;
        rows.push(if durability == Durability::Normal { row.with_maximum(ratio, 2.0, "x floor") } else { row });
        if durability == Durability::Full {
            rows.push(count_commits(&store, &definition, n).await?);
            let group = bare.insert_in_one_commit(1000, 200)?;
            let sample = SampleStats::from_seconds(vec![group]);
            rows.push(
                ReportRow::new("floor", "1000 rows in one FULL commit, per row", 1000).with_samples(sample, None, 1000),
            );
        }
    }
    Ok(rows)
}

/// A run of n steps has n + 1 boundaries (start, between, end). Releasing it is one more commit, which is not awaited.
async fn count_commits(
    store: &Arc<Store>,
    definition: &Arc<CompiledDefinition>,
    n: usize,
) -> Result<ReportRow, BenchError> {
    tokio::time::sleep(Duration::from_millis(200)).await;
    let before = store.commit_count();
    time_stored_run(store, definition).await?;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let commits = (store.commit_count() - before) as f64;
    Ok(ReportRow::new("W6", "commits of a FULL run", n).with_maximum(commits, (n + 2) as f64, "(steps + 2)"))
}

/// 1000 concurrent runs, every step on the disk.
pub(crate) async fn measure_w5_durable() -> Result<Vec<ReportRow>, BenchError> {
    let folder = scratch_folder()?;
    let store = Store::open(folder.path(), Durability::Full)?;
    let (ours, floor) = measure_many_runs(|definition| {
        store.hold_bundle(&definition.text);
        Ok(world::new_engine(store.clone()))
    })
    .await?;
    let row = ReportRow::new("W5d", "the same on SQLite FULL", 1000).with_samples(ours, Some(floor), 10_000);
    Ok(vec![row.with_minimum(1000.0 / ours.median, 2000.0, "runs/s")])
}

/// Messages of 1 KB on SQLite, and the size of the database.
pub(crate) async fn measure_w8_durable() -> Result<Vec<ReportRow>, BenchError> {
    let mut rows = Vec::new();
    for n in [100, 1000] {
        let definition = Arc::new(load_definition("messages.steps.json", n)?);
        let folder = scratch_folder()?;
        let store = Store::open(folder.path(), Durability::Normal)?;
        let mut bare = floor::RowTable::open(folder.path(), "NORMAL")?;
        let (ours, floor) = measure_in_turns(
            SLOW_REPETITIONS,
            async || time_stored_run(&store, &definition).await,
            async || bare.insert_with_commits(n, world::MESSAGE_BYTES),
        )
        .await?;
        let row = ReportRow::new("W8", "1 KB a step, SQLite NORMAL", n).with_samples(ours, Some(floor), n);
        rows.push(if n == 1000 { row.with_maximum(ours.median * 1e3, 130.0, "ms") } else { row });
    }
    add_linearity(&mut rows);
    rows.append(&mut measure_database_size(1000).await?);
    Ok(rows)
}

/// Size of the database of one run after its last connection is closed, relative to the bytes it has to store: the
/// messages and, because a run stores its definition, the definition.
async fn measure_database_size(n: usize) -> Result<Vec<ReportRow>, BenchError> {
    let definition = Arc::new(load_definition("messages.steps.json", n)?);
    let folder = scratch_folder()?;
    let store = Store::open(folder.path(), Durability::Normal)?;
    time_stored_run(&store, &definition).await?;
    drop(store);
    let bytes = std::fs::metadata(folder.path().join("flowloom.db"))?.len() as f64;
    let messages = n * world::MESSAGE_BYTES;
    let whole = ReportRow::new("W8", "database / (messages + definition)", n);
    let whole = whole.with_maximum(bytes / (messages + definition.text.len()) as f64, 1.5, "x");
    let mut strict = ReportRow::new("W8", "database / messages alone", n);
    strict.value = Some(bytes / messages as f64);
    Ok(vec![whole, strict])
}

/// Cold start: the program runs one step in a data folder that an earlier run has created.
pub(crate) fn measure_w7() -> Result<Vec<ReportRow>, BenchError> {
    let program = crate::build_folder().join("release/flowloom");
    let folder = scratch_folder()?;
    let is_built = program.exists() && measure_cold_start(&program, folder.path()).is_ok();
    if !is_built {
        return Ok(vec![ReportRow::new("W7", "cold start: target/release/flowloom is not built or cannot run", 1)]);
    }
    let (mut times, mut floors) = (Vec::new(), Vec::new());
    for _ in 0..FAST_REPETITIONS {
        times.push(measure_cold_start(&program, folder.path())?.0);
        let since = Instant::now();
        Command::new("/bin/true").status()?;
        floors.push(since.elapsed().as_secs_f64());
    }
    let ours = SampleStats::from_seconds(times);
    let row = ReportRow::new("W7", "cold start, data folder exists", 1).with_samples(
        ours,
        Some(SampleStats::from_seconds(floors)),
        1,
    );
    let mut rows = vec![row.with_maximum(ours.median * 1e3, 15.0, "ms")];
    let peak = measure_cold_start(&program, folder.path())?.1;
    rows.push(match peak {
        Some(peak) => ReportRow::new("W7", "peak memory", 1).with_maximum(peak, 20.0, "MB"),
        None => ReportRow::new("W7", "peak memory: /usr/bin/time is missing", 1),
    });
    Ok(rows)
}

/// Duration in seconds and peak memory (MB) of one start.
fn measure_cold_start(program: &Path, data: &Path) -> Result<(f64, Option<f64>), BenchError> {
    let command = |command: &mut Command| -> Result<std::process::Output, BenchError> {
        let command = command
            .arg("run")
            .arg(definitions_folder().join("one.steps.json"))
            .arg("--data-dir")
            .arg(data)
            .arg("--json");
        let output = command.output()?;
        // The program's placeholder does nothing and succeeds; a run prints its result.
        let is_run = output.status.success() && !output.stdout.is_empty();
        if is_run { Ok(output) } else { Err("the program does not run".into()) }
    };
    let since = Instant::now();
    command(&mut Command::new(program))?;
    let seconds = since.elapsed().as_secs_f64();
    let timed = command(Command::new("/usr/bin/time").args(["-f", "peak-kb=%M"]).arg(program)).ok();
    let peak = timed.and_then(|output| {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        text.lines().find_map(|line| line.strip_prefix("peak-kb=")?.trim().parse::<f64>().ok())
    });
    Ok((seconds, peak.map(|kilobytes| kilobytes / 1024.0)))
}
