//! A Postgres that a scenario may stop. Its programs are those of the server that all tests share.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;
use test_postgres::TestDatabase;

/// Id of an unprivileged user, because Postgres refuses to run as root.
const NOBODY_ID: u32 = 65534;

/// A running Postgres. It is stopped when this is dropped.
pub(crate) struct OwnPostgres {
    folder: TempDir,
    programs: PathBuf,
}

impl OwnPostgres {
    /// Starts a server with an empty database; `None` if there is no Postgres and none is required.
    pub(crate) fn start() -> Result<Option<OwnPostgres>, String> {
        let Some(shared) = TestDatabase::create_database() else { return Ok(None) };
        let programs = find_programs(Path::new(&shared.socket_path()))?;
        let folder = TempDir::with_prefix("chaos-pg-").map_err(|error| error.to_string())?;
        if is_root() {
            chown(folder.path(), Some(NOBODY_ID), Some(NOBODY_ID)).map_err(|error| error.to_string())?;
        }
        let server = OwnPostgres { folder, programs };
        server.run("initdb", &["--no-sync", "--username=postgres", "--auth=trust", "--encoding=UTF8"])?;
        server.start_again()?;
        Ok(Some(server))
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@/postgres?host={}", self.folder.path().display())
    }

    /// Ends all its processes at the same time, as a crash would.
    pub(crate) fn stop_at_once(&self) -> Result<(), String> {
        self.run("pg_ctl", &["stop", "--mode=immediate", "--silent"])
    }

    /// Starts it after a stop, and waits until it has recovered.
    pub(crate) fn start_again(&self) -> Result<(), String> {
        let options = format!("-k {} -c listen_addresses='' -c shared_buffers=16MB", self.folder.path().display());
        self.run("pg_ctl", &["start", "--wait", "--silent", "--log=log", "--options", &options])
    }

    fn run(&self, name: &str, arguments: &[&str]) -> Result<(), String> {
        let mut command = Command::new(self.programs.join(name));
        command.args(arguments).arg("--pgdata=data").current_dir(self.folder.path()).env("LC_ALL", "C.UTF-8");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if is_root() {
            command.uid(NOBODY_ID).gid(NOBODY_ID);
        }
        match command.status() {
            Ok(status) if status.success() => Ok(()),
            other => Err(format!("{name} {arguments:?}: {other:?}")),
        }
    }
}

impl Drop for OwnPostgres {
    fn drop(&mut self) {
        // It may be stopped already.
        let _ = self.stop_at_once();
    }
}

/// The folder of the programs of the server with this socket.
fn find_programs(socket: &Path) -> Result<PathBuf, String> {
    let options = socket.with_file_name("data").join("postmaster.opts");
    let text = fs::read_to_string(&options).map_err(|error| format!("{}: {error}", options.display()))?;
    let program = text.split(' ').next().map(Path::new).and_then(Path::parent);
    program.map(Path::to_owned).ok_or_else(|| format!("{} names no program", options.display()))
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}
