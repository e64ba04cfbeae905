//! The workloads on SQLite, and the cold start of the program.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flowloom_store::{Durability, Store};
use tempfile::TempDir;

use crate::Failure;
use crate::definitions::{Definition, folder, load};
use crate::measure::{Row, Sample, by_turns};
use crate::workloads::{FAST, SLOW, linear, many_runs, one};
use crate::{floor, world};

/// A new folder on the disk of the build, because `/tmp` may be in memory.
pub(crate) fn scratch() -> Result<TempDir, Failure> {
    let target = crate::target().join("bench");
    std::fs::create_dir_all(&target)?;
    Ok(TempDir::new_in(target)?)
}

/// A timed run on a store.
async fn stored(store: &Arc<Store>, definition: &Arc<Definition>) -> Result<f64, Failure> {
    store.keep_bundle(&definition.text);
    one(world::engine(store.clone()), definition).await
}

/// Every step is stored: compared with one insert and commit of a 200 byte row, and counted.
pub(crate) async fn w6() -> Result<Vec<Row>, Failure> {
    let n = 100;
    let definition = Arc::new(load("chain.steps.json", n)?);
    let mut rows = Vec::new();
    for (synchronous, durability) in [("NORMAL", Durability::Normal), ("FULL", Durability::Full)] {
        let folder = scratch()?;
        let store = Store::open(folder.path(), durability)?;
        let mut bare = floor::Rows::open(folder.path(), synchronous)?;
        let repetitions = if durability == Durability::Full { SLOW } else { FAST };
        let (ours, floor) =
            by_turns(repetitions, async || stored(&store, &definition).await, async || bare.commits(n, 200)).await?;
        let row = Row::new("W6", &format!("chain on SQLite {synchronous}, per step"), n);
        let row = row.measured(ours, Some(floor), n);
        let ratio = ours.median / floor.median;
        rows.push(if durability == Durability::Normal { row.at_most(ratio, 2.0, "x floor") } else { row });
        if durability == Durability::Full {
            rows.push(count_commits(&store, &definition, n).await?);
            let group = bare.group(1000, 200)?;
            let sample = Sample::of(vec![group]);
            rows.push(Row::new("floor", "1000 rows in one FULL commit, per row", 1000).measured(sample, None, 1000));
        }
    }
    Ok(rows)
}

/// A run of n steps has n + 1 boundaries (start, between, end). Releasing it is one more commit, which is not awaited.
async fn count_commits(store: &Arc<Store>, definition: &Arc<Definition>, n: usize) -> Result<Row, Failure> {
    tokio::time::sleep(Duration::from_millis(200)).await;
    let before = store.commits();
    stored(store, definition).await?;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let commits = (store.commits() - before) as f64;
    Ok(Row::new("W6", "commits of a FULL run", n).at_most(commits, (n + 2) as f64, "(steps + 2)"))
}

/// 1000 concurrent runs, every step on the disk.
pub(crate) async fn w5_durable() -> Result<Vec<Row>, Failure> {
    let folder = scratch()?;
    let store = Store::open(folder.path(), Durability::Full)?;
    let (ours, floor) = many_runs(|definition| {
        store.keep_bundle(&definition.text);
        Ok(world::engine(store.clone()))
    })
    .await?;
    let row = Row::new("W5d", "the same on SQLite FULL", 1000).measured(ours, Some(floor), 10_000);
    Ok(vec![row.at_least(1000.0 / ours.median, 2000.0, "runs/s")])
}

/// Messages of 1 KB on SQLite, and the size of the database.
pub(crate) async fn w8_durable() -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for n in [100, 1000] {
        let definition = Arc::new(load("messages.steps.json", n)?);
        let folder = scratch()?;
        let store = Store::open(folder.path(), Durability::Normal)?;
        let mut bare = floor::Rows::open(folder.path(), "NORMAL")?;
        let (ours, floor) =
            by_turns(SLOW, async || stored(&store, &definition).await, async || bare.commits(n, world::MESSAGE))
                .await?;
        let row = Row::new("W8", "1 KB a step, SQLite NORMAL", n).measured(ours, Some(floor), n);
        rows.push(if n == 1000 { row.at_most(ours.median * 1e3, 130.0, "ms") } else { row });
    }
    linear(&mut rows);
    rows.append(&mut size(1000).await?);
    Ok(rows)
}

/// Size of the database of one run after its last connection is closed, relative to the bytes it has to store: the
/// messages and, because a run stores its definition, the definition.
async fn size(n: usize) -> Result<Vec<Row>, Failure> {
    let definition = Arc::new(load("messages.steps.json", n)?);
    let folder = scratch()?;
    let store = Store::open(folder.path(), Durability::Normal)?;
    stored(&store, &definition).await?;
    drop(store);
    let bytes = std::fs::metadata(folder.path().join("flowloom.db"))?.len() as f64;
    let messages = n * world::MESSAGE;
    let whole = Row::new("W8", "database / (messages + definition)", n);
    let whole = whole.at_most(bytes / (messages + definition.text.len()) as f64, 1.5, "x");
    let mut strict = Row::new("W8", "database / messages alone", n);
    strict.value = Some(bytes / messages as f64);
    Ok(vec![whole, strict])
}

/// Cold start: the program runs one step in a data folder that an earlier run has created.
pub(crate) fn w7() -> Result<Vec<Row>, Failure> {
    let program = crate::target().join("release/flowloom");
    let folder = scratch()?;
    let is_built = program.exists() && cold(&program, folder.path()).is_ok();
    if !is_built {
        return Ok(vec![Row::new("W7", "cold start: target/release/flowloom is not built or cannot run", 1)]);
    }
    let (mut times, mut floors) = (Vec::new(), Vec::new());
    for _ in 0..FAST {
        times.push(cold(&program, folder.path())?.0);
        let since = Instant::now();
        Command::new("/bin/true").status()?;
        floors.push(since.elapsed().as_secs_f64());
    }
    let ours = Sample::of(times);
    let row = Row::new("W7", "cold start, data folder exists", 1).measured(ours, Some(Sample::of(floors)), 1);
    let mut rows = vec![row.at_most(ours.median * 1e3, 15.0, "ms")];
    let peak = cold(&program, folder.path())?.1;
    rows.push(match peak {
        Some(peak) => Row::new("W7", "peak memory", 1).at_most(peak, 20.0, "MB"),
        None => Row::new("W7", "peak memory: /usr/bin/time is missing", 1),
    });
    Ok(rows)
}

/// Duration in seconds and peak memory (MB) of one start.
fn cold(program: &Path, data: &Path) -> Result<(f64, Option<f64>), Failure> {
    let command = |command: &mut Command| -> Result<std::process::Output, Failure> {
        let command = command.arg("run").arg(folder().join("one.steps.json")).arg("--data-dir").arg(data).arg("--json");
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
