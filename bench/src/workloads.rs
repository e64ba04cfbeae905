//! The workloads in memory. Each returns its rows of the table.

use std::sync::Arc;
use std::time::Duration;

use flowloom_core::expr::{Expr, Ref};
use flowloom_core::plan::{Composite, Edge, Machine, Plan, StepKind};
use flowloom_runtime::Engine;
use flowloom_runtime::memory::MemoryJournal;

use crate::BenchError;
use crate::definitions::{CompiledDefinition, load_definition};
use crate::measure::{ReportRow, SampleStats, measure_in_turns, peak_mb, time_on_task};
use crate::{floor, world};

/// Repetitions of workloads that take microseconds to milliseconds.
pub(crate) const FAST_REPETITIONS: usize = 21;
/// Repetitions of workloads that take longer.
pub(crate) const SLOW_REPETITIONS: usize = 7;

/// An engine whose journal is in memory.
fn memory_engine() -> Engine {
    world::new_engine(Arc::new(MemoryJournal::new()))
}

/// One timed run of a definition.
pub(crate) async fn time_run(engine: Engine, definition: &Arc<CompiledDefinition>) -> Result<f64, BenchError> {
    let definition = definition.clone();
    // The engine and its journal are dropped on their own task, after the time is taken.
    time_on_task(async move { Ok((world::run_to_end(&engine, &definition).await?, engine)) }).await
}

async fn measure_next_to_chain(
    definition: CompiledDefinition,
    n: usize,
) -> Result<(SampleStats, SampleStats), BenchError> {
    let definition = Arc::new(definition);
    measure_in_turns(
        FAST_REPETITIONS,
        async || time_run(memory_engine(), &definition).await,
        async || time_on_task(async move { Ok(floor::run_chain(n).await) }).await,
    )
    .await
}

/// A chain of steps.
pub(crate) async fn measure_w1() -> Result<Vec<ReportRow>, BenchError> {
    let mut rows = Vec::new();
    for n in [100, 1000] {
        let (ours, floor) = measure_next_to_chain(load_definition("chain.steps.json", n)?, n).await?;
        let row = ReportRow::new("W1", "chain, per step", n).with_samples(ours, Some(floor), n);
        rows.push(if n == 100 {
            let value = row.per_unit();
            row.with_maximum(value, 2.0, "µs")
        } else {
            row
        });
    }
    let flat = rows[1].per_unit() / rows[0].per_unit();
    rows.push(ReportRow::new("W1", "flat: a step of 1000 / of 100", 1000).with_maximum(flat, 1.2, "x"));
    Ok(rows)
}

/// A walk of 1000 nodes: a loop of the step format, and two nodes of a machine.
pub(crate) async fn measure_w2() -> Result<Vec<ReportRow>, BenchError> {
    let mut rows = Vec::new();
    let looped = load_definition("cycle.steps.json", 1)?;
    let walk = machine_from_chain(load_definition("chain.steps.json", 2)?)?;
    for (what, definition) in [("walk as a loop, per node", looped), ("two nodes of a machine, per node", walk)] {
        let (ours, floor) = measure_next_to_chain(definition, 1000).await?;
        let row = ReportRow::new("W2", what, 1000).with_samples(ours, Some(floor), 1000);
        let value = row.per_unit();
        rows.push(row.with_maximum(value, 2.0, "µs"));
    }
    Ok(rows)
}

/// The two steps of a chain as nodes that lead to each other until the counter is 1000. No format compiles to such a
/// machine yet.
fn machine_from_chain(chain: CompiledDefinition) -> Result<CompiledDefinition, BenchError> {
    let mut plan: Plan = (*chain.plan).clone();
    let StepKind::Composite(Composite::Sequence(nodes)) =
        std::mem::replace(&mut plan.root.kind, StepKind::Composite(Composite::Sequence(Vec::new())))
    else {
        return Err("a chain is a sequence".into());
    };
    let counter = Ref { name: "input".into(), path: Vec::new(), source: "{{input}}".into() };
    let end = Expr::Contains(Box::new(Expr::Ref(counter)), "1000".to_owned());
    let edge = |from, to, condition| Edge { from, to, condition, label: None };
    let edges = vec![edge(1, None, Some(end)), edge(0, Some(1), None), edge(1, Some(0), None)];
    plan.root.kind = StepKind::Composite(Composite::Machine(Machine {
        nodes,
        entry: 0,
        edges,
        max_visits: 2000,
        resets: Vec::new(),
    }));
    Ok(CompiledDefinition { plan: Arc::new(plan), ..chain })
}

/// One step, then 1000 concurrent ones, then one that collects.
pub(crate) async fn measure_w3() -> Result<Vec<ReportRow>, BenchError> {
    let definition = Arc::new(load_definition("fan.steps.json", 1000)?);
    let (ours, floor) = measure_in_turns(
        FAST_REPETITIONS,
        async || time_run(memory_engine(), &definition).await,
        async || time_on_task(async { Ok(floor::spawn_tasks(1000).await) }).await,
    )
    .await?;
    let row = ReportRow::new("W3", "1 to 1000 to 1", 1000).with_samples(ours, Some(floor), 1000);
    Ok(vec![row.with_maximum(ours.median * 1e3, 1.5, "ms")])
}

/// The same with a wait of 50 ms in each.
pub(crate) async fn measure_w4() -> Result<Vec<ReportRow>, BenchError> {
    let definition = Arc::new(load_definition("waiting-fan.steps.json", 1000)?);
    let (ours, floor) = measure_in_turns(
        SLOW_REPETITIONS,
        async || time_run(memory_engine(), &definition).await,
        async || time_on_task(async { Ok(floor::sleep_tasks(1000, 1, Duration::from_millis(50)).await) }).await,
    )
    .await?;
    let row = ReportRow::new("W4", "1 to 1000 of 50 ms to 1", 1000).with_samples(ours, Some(floor), 1000);
    Ok(vec![row.with_maximum(ours.median * 1e3, 55.0, "ms")])
}

/// 1000 concurrent runs with ten steps of 20 ms each; `engine` returns a fresh one for each repetition.
pub(crate) async fn measure_many_runs(
    engine: impl Fn(&CompiledDefinition) -> Result<Engine, BenchError>,
) -> Result<(SampleStats, SampleStats), BenchError> {
    let definition = Arc::new(load_definition("waiting-chain.steps.json", 10)?);
    let ours = async || {
        let (engine, definition) = (engine(&definition)?, definition.clone());
        time_on_task(async move {
            let run = |(engine, definition): (Engine, Arc<CompiledDefinition>)| async move {
                world::run_to_end(&engine, &definition).await.map(|_| ())
            };
            let runs: Vec<_> = (0..1000).map(|_| tokio::spawn(run((engine.clone(), definition.clone())))).collect();
            for run in runs {
                run.await??;
            }
            Ok(())
        })
        .await
    };
    let floor =
        async || time_on_task(async { Ok(floor::sleep_tasks(1000, 10, Duration::from_millis(20)).await) }).await;
    measure_in_turns(SLOW_REPETITIONS, ours, floor).await
}

pub(crate) async fn measure_w5() -> Result<Vec<ReportRow>, BenchError> {
    let (ours, floor) = measure_many_runs(|_| Ok(memory_engine())).await?;
    let row = ReportRow::new("W5", "1000 runs x 10 steps x 20 ms", 1000).with_samples(ours, Some(floor), 10_000);
    Ok(vec![
        row.with_minimum(1000.0 / ours.median, 4400.0, "runs/s"),
        ReportRow::new("W5", "peak memory", 1000).with_maximum(peak_mb(), 30.0, "MB"),
    ])
}

/// Each step adds a message of 1 KB to the variables.
pub(crate) async fn measure_w8_in_memory() -> Result<Vec<ReportRow>, BenchError> {
    let mut rows = Vec::new();
    for n in [100, 1000] {
        let definition = Arc::new(load_definition("messages.steps.json", n)?);
        let (ours, floor) = measure_in_turns(
            FAST_REPETITIONS,
            async || time_run(memory_engine(), &definition).await,
            async || time_on_task(async move { Ok(floor::run_chain(n).await) }).await,
        )
        .await?;
        rows.push(ReportRow::new("W8", "1 KB a step, in memory", n).with_samples(ours, Some(floor), n));
    }
    add_linearity(&mut rows);
    Ok(rows)
}

/// Actions of one phase, each with all earlier messages as its context.
pub(crate) async fn measure_m1000() -> Result<Vec<ReportRow>, BenchError> {
    let mut rows = Vec::new();
    for n in [100, 1000] {
        let (ours, floor) = measure_next_to_chain(load_definition("gentext.mdx", n)?, n).await?;
        let row = ReportRow::new("M1000", "GenText in one phase, per action", n).with_samples(ours, Some(floor), n);
        let value = row.per_unit();
        rows.push(row.with_maximum(value, 100.0, "µs"));
    }
    add_linearity(&mut rows);
    Ok(rows)
}

/// A flow whose blocks each read the answer of the previous one.
pub(crate) async fn measure_f1000() -> Result<Vec<ReportRow>, BenchError> {
    let mut rows = Vec::new();
    for n in [100, 1000] {
        let definition = load_definition("questions.flow.json", n)?;
        let (ours, floor) = measure_next_to_chain(definition, n).await?;
        let row = ReportRow::new("F1000", "chained llmInstruction, per block", n).with_samples(ours, Some(floor), n);
        let value = row.per_unit();
        rows.push(row.with_maximum(value, 20.0, "µs"));
    }
    add_linearity(&mut rows);
    Ok(rows)
}

/// Adds the row that compares the duration of 1000 (the last row) with that of 100 (the row before).
pub(crate) fn add_linearity(rows: &mut Vec<ReportRow>) {
    if let [.., ReportRow { ours: Some(small), .. }, ReportRow { ours: Some(large), workload, .. }] = rows.as_slice() {
        let row = ReportRow::new(workload, "linear: t(1000) / t(100)", 1000);
        rows.push(row.with_maximum(large.median / small.median, 11.0, "x"));
    }
}
