//! The workloads in memory. Each returns its rows of the table.

use std::sync::Arc;
use std::time::Duration;

use flowloom_core::expr::{Expr, Ref};
use flowloom_core::plan::{Composite, Edge, Kind, Machine, Plan};
use flowloom_runtime::Engine;
use flowloom_runtime::memory::MemoryJournal;

use crate::Failure;
use crate::definitions::{Definition, load};
use crate::measure::{Row, Sample, by_turns, on_a_task, peak_mb};
use crate::{floor, world};

/// Repetitions of workloads that take microseconds to milliseconds.
pub(crate) const FAST: usize = 21;
/// Repetitions of workloads that take longer.
pub(crate) const SLOW: usize = 7;

/// An engine whose journal is in memory.
fn in_memory() -> Engine {
    world::engine(Arc::new(MemoryJournal::new()))
}

/// One timed run of a definition.
pub(crate) async fn one(engine: Engine, definition: &Arc<Definition>) -> Result<f64, Failure> {
    let definition = definition.clone();
    // The engine and its journal are dropped on their own task, after the time is taken.
    on_a_task(async move { Ok((world::run(&engine, &definition).await?, engine)) }).await
}

async fn beside_chain(definition: Definition, n: usize) -> Result<(Sample, Sample), Failure> {
    let definition = Arc::new(definition);
    by_turns(
        FAST,
        async || one(in_memory(), &definition).await,
        async || on_a_task(async move { Ok(floor::chain(n).await) }).await,
    )
    .await
}

/// A chain of steps.
pub(crate) async fn w1() -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for n in [100, 1000] {
        let (ours, floor) = beside_chain(load("chain.steps.json", n)?, n).await?;
        let row = Row::new("W1", "chain, per step", n).measured(ours, Some(floor), n);
        rows.push(if n == 100 {
            let value = row.per_unit();
            row.at_most(value, 2.0, "µs")
        } else {
            row
        });
    }
    let flat = rows[1].per_unit() / rows[0].per_unit();
    rows.push(Row::new("W1", "flat: a step of 1000 / of 100", 1000).at_most(flat, 1.2, "x"));
    Ok(rows)
}

/// A walk of 1000 nodes: a loop of the step format, and two nodes of a machine.
pub(crate) async fn w2() -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    let looped = load("cycle.steps.json", 1)?;
    let walk = machine(load("chain.steps.json", 2)?)?;
    for (what, definition) in [("walk as a loop, per node", looped), ("two nodes of a machine, per node", walk)] {
        let (ours, floor) = beside_chain(definition, 1000).await?;
        let row = Row::new("W2", what, 1000).measured(ours, Some(floor), 1000);
        let value = row.per_unit();
        rows.push(row.at_most(value, 2.0, "µs"));
    }
    Ok(rows)
}

/// The two steps of a chain as nodes that lead to each other until the counter is 1000. No format compiles to such a
/// machine yet.
fn machine(chain: Definition) -> Result<Definition, Failure> {
    let mut plan: Plan = (*chain.plan).clone();
    let Kind::Composite(Composite::Sequence(nodes)) =
        std::mem::replace(&mut plan.root.kind, Kind::Composite(Composite::Sequence(Vec::new())))
    else {
        return Err("a chain is a sequence".into());
    };
    let counter = Ref { name: "input".into(), path: Vec::new(), source: "{{input}}".into() };
    let end = Expr::Contains(Box::new(Expr::Ref(counter)), "1000".to_owned());
    let edge = |from, to, condition| Edge { from, to, condition };
    let edges = vec![edge(1, None, Some(end)), edge(0, Some(1), None), edge(1, Some(0), None)];
    plan.root.kind =
        Kind::Composite(Composite::Machine(Machine { nodes, entry: 0, edges, max_visits: 2000, resets: Vec::new() }));
    Ok(Definition { plan: Arc::new(plan), ..chain })
}

/// One step, then 1000 concurrent ones, then one that collects.
pub(crate) async fn w3() -> Result<Vec<Row>, Failure> {
    let definition = Arc::new(load("fan.steps.json", 1000)?);
    let (ours, floor) = by_turns(
        FAST,
        async || one(in_memory(), &definition).await,
        async || on_a_task(async { Ok(floor::spawns(1000).await) }).await,
    )
    .await?;
    let row = Row::new("W3", "1 to 1000 to 1", 1000).measured(ours, Some(floor), 1000);
    Ok(vec![row.at_most(ours.median * 1e3, 1.5, "ms")])
}

/// The same with a wait of 50 ms in each.
pub(crate) async fn w4() -> Result<Vec<Row>, Failure> {
    let definition = Arc::new(load("waiting-fan.steps.json", 1000)?);
    let (ours, floor) = by_turns(
        SLOW,
        async || one(in_memory(), &definition).await,
        async || on_a_task(async { Ok(floor::sleeps(1000, 1, Duration::from_millis(50)).await) }).await,
    )
    .await?;
    let row = Row::new("W4", "1 to 1000 of 50 ms to 1", 1000).measured(ours, Some(floor), 1000);
    Ok(vec![row.at_most(ours.median * 1e3, 55.0, "ms")])
}

/// 1000 concurrent runs with ten steps of 20 ms each; `engine` returns a fresh one for each repetition.
pub(crate) async fn many_runs(
    engine: impl Fn(&Definition) -> Result<Engine, Failure>,
) -> Result<(Sample, Sample), Failure> {
    let definition = Arc::new(load("waiting-chain.steps.json", 10)?);
    let ours = async || {
        let (engine, definition) = (engine(&definition)?, definition.clone());
        on_a_task(async move {
            let run = |(engine, definition): (Engine, Arc<Definition>)| async move {
                world::run(&engine, &definition).await.map(|_| ())
            };
            let runs: Vec<_> = (0..1000).map(|_| tokio::spawn(run((engine.clone(), definition.clone())))).collect();
            for run in runs {
                run.await??;
            }
            Ok(())
        })
        .await
    };
    let floor = async || on_a_task(async { Ok(floor::sleeps(1000, 10, Duration::from_millis(20)).await) }).await;
    by_turns(SLOW, ours, floor).await
}

pub(crate) async fn w5() -> Result<Vec<Row>, Failure> {
    let (ours, floor) = many_runs(|_| Ok(in_memory())).await?;
    let row = Row::new("W5", "1000 runs x 10 steps x 20 ms", 1000).measured(ours, Some(floor), 10_000);
    Ok(vec![
        row.at_least(1000.0 / ours.median, 4400.0, "runs/s"),
        Row::new("W5", "peak memory", 1000).at_most(peak_mb(), 30.0, "MB"),
    ])
}

/// Each step adds a message of 1 KB to the variables.
pub(crate) async fn w8_in_memory() -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for n in [100, 1000] {
        let definition = Arc::new(load("messages.steps.json", n)?);
        let (ours, floor) = by_turns(
            FAST,
            async || one(in_memory(), &definition).await,
            async || on_a_task(async move { Ok(floor::chain(n).await) }).await,
        )
        .await?;
        rows.push(Row::new("W8", "1 KB a step, in memory", n).measured(ours, Some(floor), n));
    }
    linear(&mut rows);
    Ok(rows)
}

/// Actions of one phase, each with all earlier messages as its context.
pub(crate) async fn m1000() -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for n in [100, 1000] {
        let (ours, floor) = beside_chain(load("gentext.mdx", n)?, n).await?;
        let row = Row::new("M1000", "GenText in one phase, per action", n).measured(ours, Some(floor), n);
        let value = row.per_unit();
        rows.push(row.at_most(value, 100.0, "µs"));
    }
    linear(&mut rows);
    Ok(rows)
}

/// A flow whose blocks each read the answer of the previous one.
pub(crate) async fn f1000() -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for n in [100, 1000] {
        let definition = load("questions.flow.json", n)?;
        let (ours, floor) = beside_chain(definition, n).await?;
        let row = Row::new("F1000", "chained llmInstruction, per block", n).measured(ours, Some(floor), n);
        let value = row.per_unit();
        rows.push(row.at_most(value, 20.0, "µs"));
    }
    linear(&mut rows);
    Ok(rows)
}

/// Adds the row that compares the duration of 1000 (the last row) with that of 100 (the row before).
pub(crate) fn linear(rows: &mut Vec<Row>) {
    if let [.., Row { ours: Some(small), .. }, Row { ours: Some(large), workload, .. }] = rows.as_slice() {
        let row = Row::new(workload, "linear: t(1000) / t(100)", 1000);
        rows.push(row.at_most(large.median / small.median, 11.0, "x"));
    }
}
