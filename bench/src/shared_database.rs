//! One-step runs over HTTP on a Postgres that waits for the disk: with one server, and with two that share the database.

use std::net::SocketAddr;

use serde_json::json;
use test_postgres::TestDatabase;

use crate::BenchError;
use crate::client::{build_request, measure_load};
use crate::measure::{ReportRow, measure_in_turns};
use crate::serving::{ServerProgram, create_folder};

/// Number of connections to each server. A commit of the database serves all that wait for it.
const CONNECTIONS_PER_SERVER: usize = 64;

/// Calls per server and repetition.
const CALLS_PER_SERVER: usize = 8192;

const REPETITIONS: usize = 5;

/// The rate of one server, and of two at the same time. Both take turns, so that they experience the same minute of the
/// disk.
pub(crate) async fn measure_shared_database() -> Result<Vec<ReportRow>, BenchError> {
    let Some(database) = TestDatabase::create_durable_database() else { return Ok(Vec::new()) };
    let config = format!("default_model = \"scripted:echo\"\ndatabase = \"{}\"\n", database.url);
    let folders = [create_folder(&config)?, create_folder(&config)?];
    let first = ServerProgram::start_flowloom(folders[0].path(), "normal", &[])?;
    let second = ServerProgram::start_flowloom(folders[1].path(), "normal", &[])?;
    let (one, two) = measure_in_turns(
        REPETITIONS,
        async || load_servers(&[first.address]).await,
        async || load_servers(&[first.address, second.address]).await,
    )
    .await?;
    let rate = CALLS_PER_SERVER as f64 / one.median;
    let gain = 2.0 * one.median / two.median;
    let row = |what: &str, calls| ReportRow::new("postgres", what, calls);
    Ok(vec![
        row("one-step runs over HTTP, fsync on, one server", CALLS_PER_SERVER)
            .with_samples(one, None, CALLS_PER_SERVER)
            .with_minimum(rate, 3000.0, "runs/s"),
        row("the same with two servers", 2 * CALLS_PER_SERVER)
            .with_samples(two, None, 2 * CALLS_PER_SERVER)
            .with_minimum(gain, 1.5, "x one server"),
    ])
}

/// Seconds until every server has answered its calls.
async fn load_servers(addresses: &[SocketAddr]) -> Result<f64, BenchError> {
    let body = json!({"workflow": "one", "inputs": "hi"}).to_string();
    let call = build_request("POST", "/api/v1/runs?wait=10", &body);
    let loads = addresses.iter().map(|address| measure_load(*address, &call, CONNECTIONS_PER_SERVER, CALLS_PER_SERVER));
    let seconds = futures_util::future::try_join_all(loads).await?;
    Ok(seconds.into_iter().fold(0.0, f64::max))
}
