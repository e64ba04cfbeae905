//! The program under test: where its runs are stored, and how it is started.

use std::env;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use test_postgres::TestDatabase;

use crate::definitions::write_definitions;
use crate::effects::EffectServer;
use crate::own_postgres::OwnPostgres;
use crate::random::Random;

/// The clocks of servers, ahead of the machine's by so many milliseconds: right, an hour slow, a day fast.
const CLOCK_OFFSETS_MS: [i64; 3] = [0, -3_600_000, 86_400_000];

/// The database that stores the runs.
pub(crate) enum Database {
    /// SQLite with this durability.
    Sqlite(&'static str),
    Postgres(TestDatabase),
    OwnPostgres(OwnPostgres),
}

/// A kind of database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseKind {
    /// SQLite, whose commits do not wait for the disk.
    SqliteNormal,
    /// SQLite, whose commits wait for the disk.
    SqliteFull,
    /// Postgres, with two servers of the program.
    Postgres,
}

/// A folder with definitions, a database, and the effect server that the definitions call.
pub(crate) struct Site {
    pub(crate) folder: TempDir,
    pub(crate) database: Database,
    pub(crate) effects: EffectServer,
    program: PathBuf,
    /// Chooses the clock of each server; `None` if all are right.
    clocks: Option<Mutex<Random>>,
}

/// A running server of the program.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    /// The lines that it has printed since it listens.
    log: Arc<Mutex<Vec<String>>>,
}

/// The program: `FLOWLOOM_PROGRAM`, or the one in the build folder of this crate.
pub(crate) fn find_program() -> Result<PathBuf, String> {
    let built = env::current_exe().ok().and_then(|own| {
        let mut folders = own.ancestors().skip(1);
        folders.find_map(|folder| Some(folder.join("flowloom")).filter(|program| program.is_file()))
    });
    let chosen = env::var_os("FLOWLOOM_PROGRAM").map(PathBuf::from).or(built);
    chosen.ok_or_else(|| "build the program first: cargo build -p flowloom; or set FLOWLOOM_PROGRAM".to_owned())
}

impl Site {
    pub(crate) fn new(database: Database) -> Result<Site, String> {
        let effects = EffectServer::start().map_err(|error| error.to_string())?;
        let folder = TempDir::with_prefix("chaos-").map_err(|error| error.to_string())?;
        write_definitions(folder.path(), effects.address).map_err(|error| error.to_string())?;
        Ok(Site { folder, database, effects, program: find_program()?, clocks: None })
    }

    /// A site with a new database of this kind; `None` if there is no Postgres and none is required.
    pub(crate) fn of_kind(kind: DatabaseKind) -> Result<Option<Site>, String> {
        let database = match kind {
            DatabaseKind::SqliteNormal => Some(Database::Sqlite("normal")),
            DatabaseKind::SqliteFull => Some(Database::Sqlite("full")),
            DatabaseKind::Postgres => TestDatabase::create_database().map(Database::Postgres),
        };
        database.map(Site::new).transpose()
    }

    /// Gives each server a clock of its own, so that a restart sets the clock.
    pub(crate) fn with_set_clocks(self, seed: u64) -> Site {
        Site { clocks: Some(Mutex::new(Random::for_part(seed, "clocks"))), ..self }
    }

    /// Copies the folder, so that a violation can be looked into.
    pub(crate) fn keep_folder(&self) -> std::io::Result<PathBuf> {
        let kept = TempDir::with_prefix("chaos-kept-")?.keep();
        Command::new("cp").arg("-a").arg(self.folder.path().join(".")).arg(&kept).status()?;
        Ok(kept)
    }

    /// A command of the program in the folder of the site.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env("FLOWLOOM_DATA_DIR", self.folder.path().join("data"));
        match &self.database {
            Database::Sqlite(durability) => command.env("FLOWLOOM_DURABILITY", durability),
            Database::Postgres(database) => command.env("FLOWLOOM_DATABASE", &database.url),
            Database::OwnPostgres(server) => command.env("FLOWLOOM_DATABASE", server.url()),
        };
        command.env_remove("FLOWLOOM_FAILPOINT").env_remove("FLOWLOOM_CLOCK_OFFSET_MS").stdin(Stdio::null());
        command
    }

    /// Starts a server and waits until it listens; `None` if it ended before that.
    pub(crate) fn start_server(&self, failpoint: Option<&str>) -> Result<Option<Server>, String> {
        let mut command = self.command(&["serve", ".", "--bind", "127.0.0.1:0"]);
        if let Some(name) = failpoint {
            command.env("FLOWLOOM_FAILPOINT", name);
        }
        if let Some(clocks) = &self.clocks {
            let choice = clocks.lock().below(CLOCK_OFFSETS_MS.len());
            command.env("FLOWLOOM_CLOCK_OFFSET_MS", CLOCK_OFFSETS_MS[choice].to_string());
        }
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("cannot start the program: {error}"))?;
        let mut lines = BufReader::new(child.stderr.take().ok_or("the program has no stderr")?).lines();
        let mut printed = Vec::new();
        for line in lines.by_ref().map_while(Result::ok) {
            if let Some(address) = line.split("http://").nth(1).filter(|_| line.starts_with("Serving")) {
                let address = address.trim().parse().map_err(|error| format!("{line}: {error}"))?;
                // A full pipe would stop the server.
                let log = Arc::<Mutex<Vec<String>>>::default();
                let lines_of_log = log.clone();
                let keep = move |line| lines_of_log.lock().push(line);
                std::thread::spawn(move || lines.map_while(Result::ok).for_each(keep));
                return Ok(Some(Server { child, address, log }));
            }
            printed.push(line);
        }
        let status = child.wait().map_err(|error| error.to_string())?;
        match is_killed(status) {
            true => Ok(None),
            false => Err(format!("the server ended with {status}: {}", printed.join("\n"))),
        }
    }
}

/// Sends a signal to a process.
pub(crate) fn signal_child(child: &Child, signal: Signal) {
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    // A process that has ended needs no signal.
    let _ = id.map(|id| kill_process(id, signal));
}

/// Whether a process was ended by a signal.
pub(crate) fn is_killed(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    status.signal().is_some()
}

impl Server {
    /// The output of the server since it listens.
    pub(crate) fn printed_lines(&self) -> String {
        self.log.lock().join("\n")
    }

    /// Ends the server with SIGKILL.
    pub(crate) fn kill(mut self) {
        self.kill_child();
    }

    /// Sends a signal to the server.
    pub(crate) fn signal(&self, signal: Signal) {
        signal_child(&self.child, signal);
    }

    /// Whether the server has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    fn kill_child(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill_child();
    }
}
