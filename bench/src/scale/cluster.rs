//! The program as it is operated: servers, and workers of Restate, each a process.

use std::net::SocketAddr;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use test_postgres::TestDatabase;
use test_restate::{RestateServer, free_addresses};

use crate::client::{ClientConnection, build_request};
use crate::serving::{ServerProgram, create_folder};
use crate::{BenchError, slow_model};

/// The engine, which decides which process drives a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EngineKind {
    /// One server on SQLite.
    Sqlite,
    /// This many servers on one Postgres.
    Postgres(usize),
    /// One server, and this many workers of Restate, with Postgres as the store.
    Restate(usize),
}

impl EngineKind {
    pub(crate) fn name(self) -> String {
        match self {
            EngineKind::Sqlite => "SQLite NORMAL".to_owned(),
            EngineKind::Postgres(1) => "Postgres, 1 server".to_owned(),
            EngineKind::Postgres(servers) => format!("Postgres, {servers} servers"),
            EngineKind::Restate(1) => "Restate, 1 worker".to_owned(),
            EngineKind::Restate(workers) => format!("Restate, {workers} workers"),
        }
    }
}

/// Steps of the run that is measured. The model answers immediately.
pub(crate) const RUN_STEPS: usize = 10;

/// Servers and workers with their database.
pub(crate) struct Cluster {
    pub(crate) servers: Vec<ServerProgram>,
    pub(crate) workers: Vec<ServerProgram>,
    pub(crate) restate: Option<RestateServer>,
    pub(crate) database: Option<TestDatabase>,
    pub(crate) model: slow_model::SlowModel,
    worker_address: SocketAddr,
    folder: TempDir,
}

impl Cluster {
    /// Starts a cluster. Fails if what it needs is not installed.
    pub(crate) async fn start(kind: EngineKind) -> Result<Cluster, BenchError> {
        let model = slow_model::start_model().await?;
        let database = match kind {
            EngineKind::Sqlite => None,
            _ => Some(TestDatabase::create_database().ok_or("no Postgres")?),
        };
        let restate = match kind {
            EngineKind::Restate(_) => Some(RestateServer::start_server().ok_or("no Restate")?),
            _ => None,
        };
        let mut config = String::from("default_model = \"scripted:echo\"\nrecovery_interval_ms = 1000\n");
        config.extend(database.as_ref().map(|database| format!("database = \"{}\"\n", database.url)));
        config.push_str(&format!("[providers.slow]\nbase_url = \"http://{}/v1\"\n", model.address));
        config.extend(restate.as_ref().map(|restate| format!("[engine]\nrestate = \"{}\"\n", restate.ingress())));
        let folder = create_folder(&config)?;
        write_definitions(&folder)?;
        let [worker_address] = free_addresses();
        let (servers, workers) = (Vec::new(), Vec::new());
        let mut cluster = Cluster { servers, workers, restate, database, model, worker_address, folder };
        let (server_count, worker_count) = match kind {
            EngineKind::Sqlite => (1, 0),
            EngineKind::Postgres(servers) => (servers, 0),
            EngineKind::Restate(workers) => (1, workers),
        };
        for _ in 0..server_count {
            cluster.start_server()?;
        }
        for _ in 0..worker_count {
            cluster.start_worker()?;
        }
        Ok(cluster)
    }

    /// Starts another server.
    pub(crate) fn start_server(&mut self) -> Result<(), BenchError> {
        let limit = ["--max-runs", "100000", "--no-studio"];
        self.servers.push(ServerProgram::start_flowloom(self.folder.path(), "normal", &limit)?);
        Ok(())
    }

    /// Starts another worker. All share one address.
    pub(crate) fn start_worker(&mut self) -> Result<(), BenchError> {
        let restate = self.restate.as_ref().ok_or("a worker needs Restate")?;
        let mut command = Command::new(crate::build_folder().join("release/flowloom"));
        command.args(["worker", "--restate", &restate.ingress(), "--admin", &restate.admin()]);
        command.args(["--listen", &self.worker_address.to_string()]).current_dir(self.folder.path());
        command.env("FLOWLOOM_DATA_DIR", self.folder.path().join("data"));
        self.workers.push(ServerProgram::start_command(&mut command)?);
        Ok(())
    }

    /// Calls the API of one server, and returns its answer.
    pub(crate) async fn call_api(&self, method: &str, path: &str, body: &str) -> Result<Value, BenchError> {
        let mut connection = ClientConnection::open(self.servers[0].address).await?;
        let response = connection.send_request(&build_request(method, path, body)).await?;
        let (status, body) = (response.status, response.body);
        match status {
            200..=299 => Ok(serde_json::from_slice(body)?),
            status => Err(format!("status {status}: {}", String::from_utf8_lossy(body)).into()),
        }
    }

    /// Size of the database, in bytes.
    pub(crate) fn database_bytes(&self) -> Result<f64, BenchError> {
        match &self.database {
            Some(database) => {
                database.run_sql("checkpoint");
                let size = database.query_texts("select pg_database_size(current_database())::text");
                Ok(size.first().ok_or("no size")?.parse()?)
            }
            None => folder_bytes(&self.folder.path().join("data")),
        }
    }

    /// Memory of processes, in MB.
    pub(crate) fn memory_mb(programs: &[ServerProgram], field: &str) -> f64 {
        programs.iter().map(|program| program.memory_mb(field)).sum()
    }
}

/// Size of the files in a folder, in bytes.
pub(crate) fn folder_bytes(folder: &std::path::Path) -> Result<f64, BenchError> {
    let mut bytes = 0.0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.metadata()?;
        bytes += if kind.is_dir() { folder_bytes(&entry.path())? } else { kind.len() as f64 };
    }
    Ok(bytes)
}

/// A run of [`RUN_STEPS`] steps whose model answers immediately, one that waits for a model, and one that waits for a
/// person.
fn write_definitions(folder: &TempDir) -> Result<(), BenchError> {
    let step = |name: &str, function: &str| {
        format!(
            r#"{{"name": "{name}", "functionId": "{function}", "mode": "sequential", "errorMode": "fail",
                "promptTemplate": "Say hello"}}"#
        )
    };
    let ten: Vec<String> = (0..RUN_STEPS).map(|index| step(&format!("s{index}"), "agent::chat")).collect();
    for (id, steps) in [("ten", ten), ("ask", vec![step("s", "human::ask")])] {
        let steps = steps.join(",");
        let definition = format!(r#"{{"id": "{id}", "name": "{id}", "description": "d", "steps": [{steps}]}}"#);
        std::fs::write(folder.path().join(format!("{id}.json")), definition)?;
    }
    let slow = "Say hello\n\n<GenText as=\"said\" model=\"slow:m\" />\n";
    Ok(std::fs::write(folder.path().join("slow.mdx"), slow)?)
}
