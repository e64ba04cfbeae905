//! Runs over HTTP, each request answered when its run has ended or waits.

use std::net::SocketAddr;
use std::time::Instant;

use crate::BenchError;
use crate::client::{ClientConnection, build_request};

/// The requests of a load.
#[derive(Clone)]
pub(crate) struct RunRequests {
    path: String,
    body: String,
    /// The status of every answer.
    status: u16,
}

impl RunRequests {
    /// Requests that are all the same, unless the path has a `#`, which is replaced by their number.
    pub(crate) fn same(path: &str, body: &str) -> RunRequests {
        RunRequests { path: path.to_owned(), body: body.to_owned(), status: 200 }
    }

    /// Requests that start runs which wait for a person.
    pub(crate) fn waiting(path: &str, body: &str) -> RunRequests {
        RunRequests { status: 202, ..RunRequests::same(path, body) }
    }

    fn build(&self, number: usize) -> Vec<u8> {
        build_request("POST", &self.path.replace('#', &number.to_string()), &self.body)
    }
}

/// The measurements of a load.
pub(crate) struct LoadTimes {
    seconds: f64,
    /// Of each run, in ascending order.
    latencies: Vec<f64>,
}

impl LoadTimes {
    /// Runs per second.
    pub(crate) fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.seconds
    }

    pub(crate) fn quantile_ms(&self, quantile: f64) -> f64 {
        let index = ((self.latencies.len() as f64 * quantile) as usize).min(self.latencies.len() - 1);
        self.latencies[index] * 1e3
    }
}

/// Starts `count` runs over a number of connections, which are shared among the addresses.
pub(crate) async fn measure_runs(
    addresses: &[SocketAddr],
    requests: &RunRequests,
    connections: usize,
    count: usize,
) -> Result<LoadTimes, BenchError> {
    let mut open = Vec::new();
    for index in 0..connections {
        open.push(ClientConnection::open(addresses[index % addresses.len()]).await?);
    }
    let since = Instant::now();
    let each = count / connections;
    let caller = |mut connection: ClientConnection, requests: RunRequests, first: usize| async move {
        let mut latencies = Vec::with_capacity(each);
        for number in first..first + each {
            let request = requests.build(number);
            let sent = Instant::now();
            connection.send_request(&request).await?.require_status(requests.status)?;
            latencies.push(sent.elapsed().as_secs_f64());
        }
        Ok::<_, BenchError>(latencies)
    };
    let callers: Vec<_> = open
        .into_iter()
        .enumerate()
        .map(|(index, connection)| tokio::spawn(caller(connection, requests.clone(), index * each)))
        .collect();
    let mut latencies = Vec::new();
    for caller in callers {
        latencies.extend(caller.await??);
    }
    let seconds = since.elapsed().as_secs_f64();
    latencies.sort_by(f64::total_cmp);
    Ok(LoadTimes { seconds, latencies })
}
