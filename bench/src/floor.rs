//! The floor: the cost of a workload's bare operations on this machine, without an engine. Each function returns the
//! seconds of one repetition.

use std::future::Future;
use std::hint::black_box;
use std::path::Path;
use std::pin::Pin;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};
use serde_json::{Value, json};

use crate::BenchError;

type ChainStep = Box<dyn Fn(Value) -> Pin<Box<dyn Future<Output = Value> + Send>> + Send + Sync>;

fn elapsed_seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}

/// A chain of `n` boxed async steps that pass on a JSON state.
pub(crate) async fn run_chain(n: usize) -> f64 {
    let since = Instant::now();
    let step = |mut state: Value| -> Pin<Box<dyn Future<Output = Value> + Send>> {
        Box::pin(async move {
            let count = state["count"].as_i64().unwrap_or_default();
            state["count"] = (count + 1).into();
            state
        })
    };
    let steps: Vec<ChainStep> = (0..n).map(|_| Box::new(step) as ChainStep).collect();
    let mut state = json!({"count": 0});
    for step in &steps {
        state = step(state).await;
    }
    black_box(state);
    elapsed_seconds(since)
}

/// `n` concurrent tasks.
pub(crate) async fn spawn_tasks(n: usize) -> f64 {
    let since = Instant::now();
    let tasks: Vec<_> = (0..n).map(|index| tokio::spawn(async move { black_box(index) })).collect();
    for task in tasks {
        let _ = task.await;
    }
    elapsed_seconds(since)
}

/// `n` concurrent tasks that each sleep `times` times, one after another.
pub(crate) async fn sleep_tasks(n: usize, times: usize, each: Duration) -> f64 {
    let since = Instant::now();
    let sleeper = move || async move {
        for _ in 0..times {
            tokio::time::sleep(each).await;
        }
    };
    let tasks: Vec<_> = (0..n).map(|_| tokio::spawn(sleeper())).collect();
    for task in tasks {
        let _ = task.await;
    }
    elapsed_seconds(since)
}

/// A database of rows.
pub(crate) struct RowTable {
    connection: Connection,
    repetition: i64,
}

impl RowTable {
    pub(crate) fn open(folder: &Path, synchronous: &str) -> Result<RowTable, BenchError> {
        let connection = Connection::open(folder.join(format!("floor-{synchronous}.db")))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", synchronous)?;
        connection.execute_batch(
            "create table row (run integer, seq integer, body text, primary key (run, seq)) without rowid",
        )?;
        Ok(RowTable { connection, repetition: 0 })
    }

    /// Inserts `n` rows of `bytes` bytes, each with its own commit.
    pub(crate) fn insert_with_commits(&mut self, n: usize, bytes: usize) -> Result<f64, BenchError> {
        let since = Instant::now();
        self.insert_rows(n, bytes)?;
        Ok(elapsed_seconds(since))
    }

    /// Inserts `n` rows of `bytes` bytes in one commit.
    pub(crate) fn insert_in_one_commit(&mut self, n: usize, bytes: usize) -> Result<f64, BenchError> {
        let since = Instant::now();
        self.connection.execute_batch("begin")?;
        self.insert_rows(n, bytes)?;
        self.connection.execute_batch("commit")?;
        Ok(elapsed_seconds(since))
    }

    fn insert_rows(&mut self, n: usize, bytes: usize) -> Result<(), BenchError> {
        self.repetition += 1;
        let body = "r".repeat(bytes);
        for index in 0..n {
            let row = params![self.repetition, index as i64, body];
            self.connection.prepare_cached("insert into row values (?, ?, ?)")?.execute(row)?;
        }
        Ok(())
    }
}
