//! Restate without Flowloom: its server, and the service of crates/restate/examples/bare-service.rs.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::json;
use test_restate::RestateServer;

use crate::BenchError;
use crate::client::{ClientConnection, build_request};

/// The server and the SDK.
pub(crate) const VERSION: &str = "1.7.12, SDK 0.13.0";

/// The bare service, served until it is dropped.
pub(crate) struct BareService {
    child: Child,
    /// Its address.
    pub(crate) url: String,
}

impl BareService {
    pub(crate) fn start() -> Result<BareService, BenchError> {
        let program = crate::build_folder().join("release/examples/bare-service");
        let mut command = Command::new(&program);
        let spawned = command.arg("127.0.0.1:0").stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no stdout")?).read_line(&mut line)?;
        Ok(BareService { child, url: line.trim().trim_start_matches("at ").to_owned() })
    }

    /// Has the server call this service.
    pub(crate) async fn register(&self, server: &RestateServer) -> Result<(), BenchError> {
        let body = json!({"uri": self.url, "force": true}).to_string();
        let address = socket_address(&server.admin())?;
        let mut connection = ClientConnection::open(address).await?;
        connection.send_request(&build_request("POST", "/deployments", &body)).await?.require_status(201)?;
        Ok(())
    }
}

impl Drop for BareService {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The address of a URL like `http://127.0.0.1:8080`.
pub(crate) fn socket_address(url: &str) -> Result<SocketAddr, BenchError> {
    Ok(url.trim_start_matches("http://").parse()?)
}

/// The bare service as a peer.
pub(crate) struct BarePeer {
    _server: RestateServer,
    _service: BareService,
    body: String,
    /// Open while the peer is used, as those of a service would be.
    connections: Vec<ClientConnection>,
}

impl BarePeer {
    /// Starts the server and the service. Each run is one call, each step one journaled action.
    pub(crate) async fn prepare(workload: &str, n: usize) -> Result<BarePeer, BenchError> {
        let (actions, bytes, milliseconds, runs) = match workload {
            "W5-stored" => (10, 10, 20, n),
            "W8-sqlite" => (n, 1024, 0, 1),
            _ => (n, 10, 0, 1),
        };
        let server = RestateServer::start_server().ok_or("Restate is not installed")?;
        let service = BareService::start()?;
        service.register(&server).await?;
        let body = json!({"actions": actions, "bytes": bytes, "milliseconds": milliseconds}).to_string();
        let mut connections = Vec::new();
        for _ in 0..runs {
            connections.push(ClientConnection::open(socket_address(&server.ingress())?).await?);
        }
        Ok(BarePeer { _server: server, _service: service, body, connections })
    }

    /// The seconds of one repetition.
    pub(crate) async fn run_once(&mut self) -> Result<f64, BenchError> {
        let request = build_request("POST", "/Bare/chain", &self.body);
        let since = Instant::now();
        let call = |mut connection: ClientConnection, request: Vec<u8>| async move {
            connection.send_request(&request).await?.require_status(200)?;
            Ok::<_, BenchError>(connection)
        };
        let calls: Vec<_> =
            self.connections.drain(..).map(|connection| tokio::spawn(call(connection, request.clone()))).collect();
        for call in calls {
            self.connections.push(call.await??);
        }
        Ok(since.elapsed().as_secs_f64())
    }
}
