//! A model that never answers: it accepts requests and counts them.

use std::net::SocketAddr;

use axum::extract::State;
use tokio::sync::watch;

use crate::BenchError;

/// The model's server, in this process.
pub(crate) struct SlowModel {
    pub(crate) address: SocketAddr,
    count: watch::Receiver<usize>,
}

/// Starts one on a free port.
pub(crate) async fn start_model() -> Result<SlowModel, BenchError> {
    let (counted, count) = watch::channel(0);
    let router = axum::Router::new().fallback(count_request).with_state(counted);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(SlowModel { address, count })
}

async fn count_request(State(counted): State<watch::Sender<usize>>, _body: axum::body::Bytes) {
    counted.send_modify(|count| *count += 1);
    std::future::pending().await
}

impl SlowModel {
    /// Waits until the model has received a number of requests.
    pub(crate) async fn wait_for_requests(&self, times: usize) {
        // An error means that the server has ended, which the caller notices soon enough.
        let _ = self.count.clone().wait_for(|count| *count >= times).await;
    }
}
