//! A peer in a process of its own. It runs its workload once for each line that it reads, and answers with the seconds.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use tempfile::TempDir;
use test_postgres::TestDatabase;

use crate::BenchError;
use crate::durable::scratch_folder;
use crate::measure::read_memory_mb;

/// The workload that is the start of the process itself.
const COLD_START: &str = "W7";

/// A driver of bench/peers.
pub(crate) struct Driver {
    pub(crate) version: String,
    command: Command,
    /// `None` if each repetition is a process.
    talking: Option<Conversation>,
    folder: TempDir,
    _database: Option<TestDatabase>,
}

struct Conversation {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Drop for Conversation {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Driver {
    /// Starts the driver of a workload. Fails if the peer is not installed.
    pub(crate) fn prepare(peer: &str, workload: &str, n: usize) -> Result<Driver, BenchError> {
        let installed = std::path::absolute(Path::new("target/peers").join(peer))?;
        if let Ok(why) = std::fs::read_to_string(installed.join("missing")) {
            return Err(format!("could not be installed: {}", why.trim()).into());
        }
        if !installed.join("pinned").is_file() {
            return Err("not installed".into());
        }
        let folder = scratch_folder()?;
        let database = match workload.ends_with("-postgres") {
            true => Some(TestDatabase::create_database().ok_or("no Postgres")?),
            false => None,
        };
        let mut command = driver_command(peer, &installed)?;
        command.env("PEER_FOLDER", &installed).current_dir(folder.path());
        if let Some(database) = &database {
            command.env("PEER_DATABASE", &database.url);
        }
        command.arg(workload);
        let version = String::new();
        let mut driver = Driver { version, command, talking: None, folder, _database: database };
        if workload != COLD_START {
            driver.command.arg(n.to_string());
            driver.begin_conversation()?;
        }
        Ok(driver)
    }

    fn begin_conversation(&mut self) -> Result<(), BenchError> {
        let log = std::fs::File::create(self.folder.path().join("log"))?;
        let mut child = self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn()?;
        let input = child.stdin.take().ok_or("no stdin")?;
        let output = BufReader::new(child.stdout.take().ok_or("no stdout")?);
        let mut talking = Conversation { child, input, output };
        let mut line = String::new();
        talking.output.read_line(&mut line)?;
        if line.is_empty() {
            return Err(self.describe_failure().into());
        }
        self.version = line.trim().to_owned();
        self.talking = Some(talking);
        Ok(())
    }

    /// The last line that the driver has logged.
    fn describe_failure(&self) -> String {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        format!("failed: {}", log.trim().lines().last().unwrap_or_default())
    }

    /// The seconds of one repetition.
    pub(crate) fn run_once(&mut self) -> Result<f64, BenchError> {
        let Some(talking) = &mut self.talking else {
            let since = Instant::now();
            let done = self.command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
            let seconds = since.elapsed().as_secs_f64();
            return if done.success() { Ok(seconds) } else { Err(format!("{done}").into()) };
        };
        let mut line = String::new();
        talking.input.write_all(b"\n").and_then(|()| talking.output.read_line(&mut line))?;
        line.trim().parse().map_err(|_| self.describe_failure().into())
    }

    /// Peak memory of the process.
    pub(crate) fn peak_mb(&self) -> Option<f64> {
        Some(read_memory_mb(self.talking.as_ref()?.child.id(), "VmHWM"))
    }
}

fn driver_command(peer: &str, installed: &Path) -> Result<Command, BenchError> {
    let drivers = std::path::absolute(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("peers").join(peer))?;
    let run = |program: PathBuf, arguments: &[&Path]| {
        let mut command = Command::new(program);
        command.args(arguments);
        command
    };
    Ok(match peer {
        "graph-flow" => run(installed.join("release/peer-graph-flow"), &[]),
        "mastra" => run("node".into(), &[&drivers.join("driver.mjs")]),
        _ => run(installed.join("python/bin/python"), &[Path::new("-B"), &drivers.join("driver.py")]),
    })
}
