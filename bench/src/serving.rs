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

use crate::client::{Connection, load, request};
use crate::durable::scratch;
use crate::measure::{Row, by_turns};
use crate::{Failure, slow_model};

/// Number of connections of the load.
const CALLERS: usize = 16;

/// Calls per repetition.
const CALLS: usize = 16_000;

/// Number of runs that wait for a model.
const WAITING: usize = 10_000;

/// Number of clients that subscribe to a run.
const FOLLOWERS: usize = 1000;

/// A definition of one step, answered by a script.
const ONE: &str = r#"{"id": "one", "name": "one", "description": "d", "steps": [
  {"name": "s", "functionId": "agent::chat", "mode": "sequential", "errorMode": "fail", "promptTemplate": "Say {{input}}"}]}"#;

/// A program that serves HTTP until it is dropped.
pub(crate) struct Program {
    child: Child,
    pub(crate) address: SocketAddr,
    /// Time until it listened, in seconds.
    ready: f64,
}

impl Program {
    /// Starts a command that prints its address on stderr.
    fn start(command: &mut Command) -> Result<Program, Failure> {
        let since = Instant::now();
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let mut said = BufReader::new(child.stderr.take().ok_or("no stderr")?);
        let mut line = String::new();
        let address = loop {
            line.clear();
            if said.read_line(&mut line)? == 0 {
                return Err("the server ended".into());
            }
            if let Some((_, address)) = line.split_once("at http://") {
                break address.trim().parse()?;
            }
        };
        let ready = since.elapsed().as_secs_f64();
        // Later output must be read, or the program would block on a full pipe.
        std::thread::spawn(move || said.lines().for_each(drop));
        Ok(Program { child, address, ready })
    }

    /// `flowloom serve` in a folder that contains its configuration and definitions.
    pub(crate) fn flowloom(folder: &Path, durability: &str, arguments: &[&str]) -> Result<Program, Failure> {
        let mut command = Command::new(crate::target().join("release/flowloom"));
        command.args(["serve", ".", "--bind", "127.0.0.1:0"]).args(arguments).current_dir(folder);
        command.env("FLOWLOOM_DATA_DIR", folder.join("data")).env("FLOWLOOM_DURABILITY", durability);
        Program::start(&mut command)
    }

    /// Plain axum, which echoes JSON.
    fn axum() -> Result<Program, Failure> {
        Program::start(Command::new(std::env::current_exe()?).arg(AXUM))
    }

    /// A field of `/proc/PID/status`, in MB.
    pub(crate) fn memory(&self, field: &str) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        let kilobytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<f64>().ok());
        kilobytes.map_or(f64::NAN, |kilobytes| kilobytes / 1024.0)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The flag that makes this program the plain axum server.
pub(crate) const AXUM: &str = "--axum";

/// The floor: a server that echoes JSON.
pub(crate) async fn bare() -> Result<(), Failure> {
    let router = axum::Router::new().route("/api/v1/runs", post(async |Json(body): Json<Value>| Json(body)));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    eprintln!("at http://{}", listener.local_addr()?);
    Ok(axum::serve(listener, router).await?)
}

/// A folder with a configuration and the one-step definition.
pub(crate) fn folder(config: &str) -> Result<TempDir, Failure> {
    let folder = scratch()?;
    std::fs::write(folder.path().join("flowloom.toml"), config)?;
    std::fs::write(folder.path().join("one.json"), ONE)?;
    Ok(folder)
}

/// One-step runs, started, finished and answered, compared with plain axum that echoes 1 KB of JSON (an answer has 0.6
/// KB).
pub(crate) async fn http() -> Result<Vec<Row>, Failure> {
    let path = "/api/v1/runs?wait=10";
    let call = request("POST", path, &json!({"workflow": "one", "inputs": "hi"}).to_string());
    let echo = request(
        "POST",
        path,
        &json!({"items": vec!["fifty bytes of text that stand for some real input"; 20]}).to_string(),
    );
    let mut rows = Vec::new();
    let postgres = test_postgres::Database::create();
    let mut stores = vec![
        ("one-step runs over HTTP, in memory", "memory", None, Some(20_000.0)),
        ("the same on SQLite NORMAL", "normal", None, Some(5_000.0)),
    ];
    stores.extend(
        postgres.as_ref().map(|database| ("the same on Postgres, fsync off", "normal", Some(&database.url), None)),
    );
    for (what, durability, database, goal) in stores {
        let database = database.map(|url| format!("database = \"{url}\"\n")).unwrap_or_default();
        let folder = folder(&format!("default_model = \"scripted:echo\"\n{database}"))?;
        let (ours, bare) = (Program::flowloom(folder.path(), durability, &[])?, Program::axum()?);
        // Reach the steady state: the server retains as many finished runs as it may, and has allocated room for them.
        load(ours.address, &call, CALLERS, CALLS).await?;
        load(bare.address, &echo, CALLERS, CALLS).await?;
        let (ours, floor) = by_turns(
            9,
            async || load(ours.address, &call, CALLERS, CALLS).await,
            async || load(bare.address, &echo, CALLERS, CALLS).await,
        )
        .await?;
        let row = Row::new("HTTP", what, CALLS).measured(ours, Some(floor), CALLS);
        let rate = CALLS as f64 / ours.median;
        rows.push(match goal {
            Some(goal) => row.at_least(rate, goal, "runs/s"),
            None => Row { value: Some(rate), ..row },
        });
        let share = floor.median / ours.median * 100.0;
        let of_bare = Row::new("HTTP", "of what bare axum echoes", CALLS);
        rows.push(if durability == "memory" {
            of_bare.at_least(share, 38.0, "%")
        } else {
            Row { value: Some(share), ..of_bare }
        });
    }
    Ok(rows)
}

/// Memory of runs that wait for a model, and of subscribers of a run.
pub(crate) async fn crowds() -> Result<Vec<Row>, Failure> {
    let model = slow_model::start().await?;
    let config = format!("default_model = \"slow:m\"\n[providers.slow]\nbase_url = \"http://{}/v1\"\n", model.address);
    let folder = folder(&config)?;
    let server = Program::flowloom(folder.path(), "normal", &["--max-runs", "100000"])?;
    let mut connection = Connection::open(server.address).await?;
    let call = request("POST", "/api/v1/runs", &json!({"workflow": "one", "inputs": "hi"}).to_string());
    let first = started(connection.call(&call).await?)?;
    model.asked(1).await;
    let before = server.memory("VmRSS");
    let mut followers = Vec::new();
    for _ in 0..FOLLOWERS {
        let follow = request("GET", &format!("/api/v1/runs/{first}/events?deltas=true"), "");
        let mut stream = Connection::open(server.address).await?.begin(&follow).await?;
        let mut some = [0; 1024];
        let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut some).await?;
        followers.push(stream);
    }
    let followed = Row::new("crowds", "subscribers, each on a connection: memory", FOLLOWERS);
    let mut rows = vec![followed.at_most(server.memory("VmRSS") - before, 100.0, "MB more")];
    drop(followers);
    for _ in 1..WAITING {
        started(connection.call(&call).await?)?;
    }
    model.asked(WAITING).await;
    let waiting = Row::new("crowds", "runs that wait for a model: peak memory", WAITING);
    rows.push(waiting.at_most(server.memory("VmHWM"), 200.0, "MB"));
    rows.push(ready().await?);
    Ok(rows)
}

fn started((status, body): (u16, &[u8])) -> Result<String, Failure> {
    let run: Value = serde_json::from_slice(body)?;
    let id = run["run_id"].as_str().filter(|_| status == 202);
    Ok(id.ok_or_else(|| format!("status {status}: {run}"))?.to_owned())
}

/// Time until a server listens on a database of ten thousand runs.
async fn ready() -> Result<Row, Failure> {
    let folder = folder("default_model = \"scripted:echo\"\n")?;
    let call = request("POST", "/api/v1/runs?wait=10", &json!({"workflow": "one", "inputs": "hi"}).to_string());
    let server = Program::flowloom(folder.path(), "off", &[])?;
    load(server.address, &call, CALLERS, WAITING).await?;
    drop(server);
    let mut times = Vec::new();
    for _ in 0..5 {
        times.push(Program::flowloom(folder.path(), "normal", &[])?.ready * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(Row::new("crowds", "ready on a database with that many runs", WAITING).at_most(
        times[times.len() / 2],
        100.0,
        "ms",
    ))
}
