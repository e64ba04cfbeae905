//! The server: runs over HTTP compared with plain axum, and the cost of waiting runs and subscribers.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use axum::Json;
use axum::routing::post;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{ClientConnection, Response, build_request, measure_load};
use crate::durable::scratch_folder;
use crate::measure::{ReportRow, measure_in_turns, read_memory_mb};
use crate::{BenchError, slow_model};

/// Number of connections of the load.
const LOAD_CONNECTIONS: usize = 16;

/// Calls per repetition.
const CALLS_PER_REPETITION: usize = 16_000;

/// Number of runs that wait for a model.
const WAITING_RUNS: usize = 10_000;

/// Number of clients that subscribe to a run.
const SUBSCRIBER_COUNT: usize = 1000;

/// A definition of one step, answered by a script.
const ONE_STEP_DEFINITION: &str = r#"{"id": "one", "name": "one", "description": "d", "steps": [
  {"name": "s", "functionId": "agent::chat", "mode": "sequential", "errorMode": "fail", "promptTemplate": "Say {{input}}"}]}"#;

/// A program that serves HTTP until it is dropped.
pub(crate) struct ServerProgram {
    child: Child,
    pub(crate) address: SocketAddr,
    /// Time until it listened, in seconds.
    ready_seconds: f64,
}

impl ServerProgram {
    /// Starts a command that prints its address on stderr.
    pub(crate) fn start_command(command: &mut Command) -> Result<ServerProgram, BenchError> {
        let since = Instant::now();
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(child.stderr.take().ok_or("no stderr")?);
        let mut line = String::new();
        let address = loop {
            line.clear();
            if lines.read_line(&mut line)? == 0 {
                return Err("the server ended".into());
            }
            if let Some((_, address)) = line.split_once("at http://") {
                break address.trim().parse()?;
            }
        };
        let ready = since.elapsed().as_secs_f64();
        // Later output must be read, or the program would block on a full pipe.
        std::thread::spawn(move || lines.lines().for_each(drop));
        Ok(ServerProgram { child, address, ready_seconds: ready })
    }

    /// `flowloom serve` in a folder that contains its configuration and definitions.
    pub(crate) fn start_flowloom(
        folder: &Path,
        durability: &str,
        arguments: &[&str],
    ) -> Result<ServerProgram, BenchError> {
        let mut command = Command::new(crate::build_folder().join("release/flowloom"));
        command.args(["serve", ".", "--bind", "127.0.0.1:0"]).args(arguments).current_dir(folder);
        command.env("FLOWLOOM_DATA_DIR", folder.join("data")).env("FLOWLOOM_DURABILITY", durability);
        ServerProgram::start_command(&mut command)
    }

    /// Plain axum, which echoes JSON.
    fn start_axum() -> Result<ServerProgram, BenchError> {
        ServerProgram::start_command(Command::new(std::env::current_exe()?).arg(AXUM_FLAG))
    }

    /// A field of `/proc/PID/status`, in MB.
    pub(crate) fn memory_mb(&self, field: &str) -> f64 {
        read_memory_mb(self.child.id(), field)
    }
}

impl Drop for ServerProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The flag that makes this program the plain axum server.
pub(crate) const AXUM_FLAG: &str = "--axum";

/// The floor: a server that echoes JSON.
pub(crate) async fn serve_bare() -> Result<(), BenchError> {
    let router = axum::Router::new().route("/api/v1/runs", post(async |Json(body): Json<Value>| Json(body)));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    eprintln!("at http://{}", listener.local_addr()?);
    Ok(axum::serve(listener, router).await?)
}

/// A folder with a configuration and the one-step definition.
pub(crate) fn create_folder(config: &str) -> Result<TempDir, BenchError> {
    let folder = scratch_folder()?;
    std::fs::write(folder.path().join("flowloom.toml"), config)?;
    std::fs::write(folder.path().join("one.json"), ONE_STEP_DEFINITION)?;
    Ok(folder)
}

/// One-step runs, started, finished and answered, compared with plain axum that echoes 1 KB of JSON (an answer has 0.6
/// KB).
pub(crate) async fn measure_http() -> Result<Vec<ReportRow>, BenchError> {
    let path = "/api/v1/runs?wait=10";
    let call = build_request("POST", path, &json!({"workflow": "one", "inputs": "hi"}).to_string());
    let echo = build_request(
        "POST",
        path,
        &json!({"items": vec!["fifty bytes of text that stand for some real input"; 20]}).to_string(),
    );
    let mut rows = Vec::new();
    let postgres = test_postgres::TestDatabase::create_database();
    let mut stores = vec![
        ("one-step runs over HTTP, in memory", "memory", None, Some(40_000.0)),
        ("the same on SQLite NORMAL", "normal", None, Some(10_000.0)),
    ];
    stores.extend(
        postgres.as_ref().map(|database| ("the same on Postgres, fsync off", "normal", Some(&database.url), None)),
    );
    for (what, durability, database, goal) in stores {
        let database = database.map(|url| format!("database = \"{url}\"\n")).unwrap_or_default();
        let folder = create_folder(&format!("default_model = \"scripted:echo\"\n{database}"))?;
        let (ours, bare) =
            (ServerProgram::start_flowloom(folder.path(), durability, &[])?, ServerProgram::start_axum()?);
        // Reach the steady state: the server retains the maximum number of finished runs, and has allocated room for
        // them.
        measure_load(ours.address, &call, LOAD_CONNECTIONS, CALLS_PER_REPETITION).await?;
        measure_load(bare.address, &echo, LOAD_CONNECTIONS, CALLS_PER_REPETITION).await?;
        let (ours, floor) = measure_in_turns(
            9,
            async || measure_load(ours.address, &call, LOAD_CONNECTIONS, CALLS_PER_REPETITION).await,
            async || measure_load(bare.address, &echo, LOAD_CONNECTIONS, CALLS_PER_REPETITION).await,
        )
        .await?;
        let row =
            ReportRow::new("HTTP", what, CALLS_PER_REPETITION).with_samples(ours, Some(floor), CALLS_PER_REPETITION);
        let rate = CALLS_PER_REPETITION as f64 / ours.median;
        rows.push(match goal {
            Some(goal) => row.with_minimum(rate, goal, "runs/s"),
            None => ReportRow { value: Some(rate), ..row },
        });
        let share = floor.median / ours.median * 100.0;
        let of_bare = ReportRow::new("HTTP", "of what bare axum echoes", CALLS_PER_REPETITION);
        rows.push(if durability == "memory" {
            of_bare.with_minimum(share, 38.0, "%")
        } else {
            ReportRow { value: Some(share), ..of_bare }
        });
    }
    Ok(rows)
}

/// Memory of runs that wait for a model, and of subscribers of a run.
pub(crate) async fn measure_crowds() -> Result<Vec<ReportRow>, BenchError> {
    let model = slow_model::start_model().await?;
    let config = format!("default_model = \"slow:m\"\n[providers.slow]\nbase_url = \"http://{}/v1\"\n", model.address);
    let folder = create_folder(&config)?;
    let server = ServerProgram::start_flowloom(folder.path(), "normal", &["--max-runs", "100000"])?;
    let mut connection = ClientConnection::open(server.address).await?;
    let call = build_request("POST", "/api/v1/runs", &json!({"workflow": "one", "inputs": "hi"}).to_string());
    let first = started_run_id(&connection.send_request(&call).await?)?;
    model.wait_for_requests(1).await;
    let before = server.memory_mb("VmRSS");
    let mut followers = Vec::new();
    for _ in 0..SUBSCRIBER_COUNT {
        let follow = build_request("GET", &format!("/api/v1/runs/{first}/events?deltas=true"), "");
        let mut stream = ClientConnection::open(server.address).await?.begin_stream(&follow).await?;
        let mut some = [0; 1024];
        let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut some).await?;
        followers.push(stream);
    }
    let followed = ReportRow::new("crowds", "subscribers, each on a connection: memory", SUBSCRIBER_COUNT);
    let mut rows = vec![followed.with_maximum(server.memory_mb("VmRSS") - before, 100.0, "MB more")];
    drop(followers);
    for _ in 1..WAITING_RUNS {
        started_run_id(&connection.send_request(&call).await?)?;
    }
    model.wait_for_requests(WAITING_RUNS).await;
    let waiting = ReportRow::new("crowds", "runs that wait for a model: peak memory", WAITING_RUNS);
    rows.push(waiting.with_maximum(server.memory_mb("VmHWM"), 200.0, "MB"));
    rows.push(measure_ready().await?);
    Ok(rows)
}

fn started_run_id(response: &Response<'_>) -> Result<String, BenchError> {
    let run: Value = serde_json::from_slice(response.require_status(202)?)?;
    Ok(run["run_id"].as_str().ok_or_else(|| format!("no run id: {run}"))?.to_owned())
}

/// Time until a server listens on a database of ten thousand runs.
async fn measure_ready() -> Result<ReportRow, BenchError> {
    let folder = create_folder("default_model = \"scripted:echo\"\n")?;
    let call = build_request("POST", "/api/v1/runs?wait=10", &json!({"workflow": "one", "inputs": "hi"}).to_string());
    let server = ServerProgram::start_flowloom(folder.path(), "off", &[])?;
    measure_load(server.address, &call, LOAD_CONNECTIONS, WAITING_RUNS).await?;
    drop(server);
    let mut times = Vec::new();
    for _ in 0..5 {
        times.push(ServerProgram::start_flowloom(folder.path(), "normal", &[])?.ready_seconds * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(ReportRow::new("crowds", "ready on a database with that many runs", WAITING_RUNS).with_maximum(
        times[times.len() / 2],
        100.0,
        "ms",
    ))
}
