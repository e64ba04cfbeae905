//! Compares runs on Restate with Restate alone: the same server, the same number of journal entries, in turns.

use serde_json::json;

use super::cluster::{Cluster, EngineKind, RUN_STEPS};
use super::load::{RunRequests, measure_runs};
use super::{LOAD_CONNECTIONS, LOAD_RUNS};
use crate::BenchError;
use crate::measure::{ReportRow, SampleStats, measure_in_turns};
use crate::peers::{BareService, socket_address};

/// Actions that a run of [`RUN_STEPS`] steps journals: one before its first effect, and one after each.
const ACTIONS: usize = RUN_STEPS + 1;

/// Size of the batch of events of a step, in bytes.
const ACTION_BYTES: usize = 700;

const REPETITIONS: usize = 5;

pub(crate) async fn measure_beside_bare() -> Result<Vec<ReportRow>, BenchError> {
    let cluster = Cluster::start(EngineKind::Restate(1)).await?;
    let restate = cluster.restate.as_ref().ok_or("no Restate")?;
    let service = BareService::start()?;
    service.register(restate).await?;
    let ours = RunRequests::same("/api/v1/runs?wait=30", &json!({"workflow": "ten", "inputs": "hi"}).to_string());
    let (servers, ingress) = ([cluster.servers[0].address], [socket_address(&restate.ingress())?]);
    let actions = json!({"actions": ACTIONS, "bytes": ACTION_BYTES, "milliseconds": 0}).to_string();
    let mut turn = 0;
    let (ours, bare) = measure_in_turns(
        REPETITIONS,
        async || Ok(LOAD_RUNS as f64 / measure_runs(&servers, &ours, LOAD_CONNECTIONS, LOAD_RUNS).await?.rate()),
        async || {
            turn += 1;
            // A workflow runs once for each key.
            let bare = RunRequests::same(&format!("/BareRun/{turn}-#/run"), &actions);
            Ok(LOAD_RUNS as f64 / measure_runs(&ingress, &bare, LOAD_CONNECTIONS, LOAD_RUNS).await?.rate())
        },
    )
    .await?;
    Ok(compare(ours, bare))
}

fn compare(ours: SampleStats, bare: SampleStats) -> Vec<ReportRow> {
    let steps = |seconds: f64| (LOAD_RUNS * RUN_STEPS) as f64 / seconds;
    let row = |what: &str| ReportRow::new("scale", what, LOAD_RUNS);
    vec![
        row("Restate alone, as many journal entries: steps/s").with_value(steps(bare.median)),
        row("Restate: of what Restate does alone").with_samples(ours, Some(bare), LOAD_RUNS).with_minimum(
            100.0 * bare.median / ours.median,
            80.0,
            "%",
        ),
    ]
}
