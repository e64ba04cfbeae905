//! A database that is locked or cannot be reached for a while: requests are refused with a retryable status, and runs wait
//! and continue by themselves.

mod support;

use std::io::copy;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use support::http::{HttpAnswer, RunningServer};
use support::{TestServer, Workspace, exit_code, stderr_text, two_calls_flow};

/// The lease of servers whose database is away for longer.
const SHORT_LEASE: Duration = Duration::from_secs(2);

/// A server with a short recovery interval and a run that waits for the reply to a POST.
fn start_run_with_post(world: &TestServer, database: &str) -> (Workspace, RunningServer, String) {
    let place = Workspace::new(&format!(
        "{database}default_model = \"scripted:echo\"\nrecovery_interval_ms = 100\n{}",
        world.egress_config()
    ));
    place.write("flow.json", &two_calls_flow(world, "POST", "/slow"));
    let server = RunningServer::start(&place, &[]);
    let started = server.post("/api/v1/runs", &json!({"workflow": "flow"}));
    let run = started.json()["run_id"].as_str().expect("an id").to_owned();
    world.wait_for_requests("/slow", 1);
    (place, server, run)
}

fn assert_unavailable(answer: &HttpAnswer, code: &str) {
    assert_eq!((answer.status, answer.error_code().as_str()), (503, code), "{answer:?}");
    assert!(answer.head.contains("retry-after: 5"), "{answer:?}");
}

fn assert_run_succeeds(server: &RunningServer, run: &str) {
    let end = Instant::now() + Duration::from_secs(60);
    let shown = loop {
        let shown = server.get(&format!("/api/v1/runs/{run}")).json();
        if shown["status"] != "running" || Instant::now() > end {
            break shown;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let ended = (&shown["status"], &shown["output"]);
    assert_eq!(ended, (&json!("succeeded"), &json!("LLM(/slow)")), "{shown}\n{}", server.read_log());
}

#[test]
fn a_locked_file_interrupts_no_run() {
    let world = TestServer::start();
    let (place, server, run) = start_run_with_post(&world, "");
    let other = rusqlite::Connection::open(place.path("data/flowloom.db")).expect("it opens");
    other.execute_batch("BEGIN EXCLUSIVE").expect("locked");
    world.release_slow();
    let asked_at = Instant::now();
    let (ready, refused) = std::thread::scope(|scope| {
        let ready = scope.spawn(|| server.get("/health/ready"));
        (server.post("/api/v1/runs", &json!({"workflow": "flow"})), ready.join().expect("answered"))
    });
    assert!(asked_at.elapsed() < Duration::from_secs(9), "{:?}", asked_at.elapsed());
    assert_unavailable(&refused, "FL1306");
    assert_unavailable(&ready, "FL1306");
    assert_eq!(server.get(&format!("/api/v1/runs/{run}")).status, 200, "reading is possible");
    // Longer than a statement waits.
    std::thread::sleep(Duration::from_secs(11).saturating_sub(asked_at.elapsed()));
    other.execute_batch("ROLLBACK").expect("released");
    assert_run_succeeds(&server, &run);
    assert_eq!(world.request_count("/slow"), 1);
    assert_eq!(server.get("/health/ready").status, 200);
}

#[test]
fn a_postgres_that_is_away_interrupts_no_run() {
    let Some(database) = test_postgres::TestDatabase::create_database() else { return };
    let (proxy, url) = CuttableProxy::start_for(&database);
    let world = TestServer::start();
    let (_place, server, run) = start_run_with_post(&world, &url);
    proxy.cut();
    world.release_slow();
    assert_unavailable(&server.get("/health/ready"), "FL1307");
    assert_unavailable(&server.get(&format!("/api/v1/runs/{run}")), "FL1307");
    assert_unavailable(&server.post("/api/v1/runs", &json!({"workflow": "flow"})), "FL1307");
    assert_unavailable(&server.get("/v1/models"), "FL1307");
    proxy.restore();
    assert_run_succeeds(&server, &run);
    assert_eq!(world.request_count("/slow"), 1);
    assert_eq!(server.get("/health/ready").status, 200);
}

/// Nothing was sent to a database that was away before the call: the start is refused, and the log promises nothing. A key
/// that has read the metrics continues to do so.
#[test]
fn a_start_that_no_database_can_store_is_refused() {
    let Some(database) = test_postgres::TestDatabase::create_database() else { return };
    let (proxy, url) = CuttableProxy::start_for(&database);
    let place = Workspace::with_hello(&format!("{url}[embeddings]\nmodel = \"none\"\n"));
    let open = RunningServer::start(&place, &["--log", "json"]);
    let key = place.run(&["keys", "create", "--name", "monitor", "--scopes", "read"]);
    assert_eq!(exit_code(&key), 0, "{}", stderr_text(&key));
    let authorization = format!("Authorization: Bearer {}", String::from_utf8_lossy(&key.stdout).trim());
    let closed = RunningServer::start(&place, &[]);
    let get = |path: &str| closed.send_and_read("GET", path, &[&authorization], "");
    assert!(get("/metrics").body.contains("flowloom_ready 1\n"));
    assert!(open.post("/api/v1/runs?wait=30", &json!({"workflow": "hello"})).status < 300);
    proxy.cut();
    // Longer than a check of the metrics counts.
    std::thread::sleep(Duration::from_millis(3100));
    let refused = open.post("/api/v1/runs", &json!({"workflow": "hello"}));
    assert_unavailable(&refused, "FL1307");
    assert!(!refused.body.contains("during a commit") && !refused.body.contains("run_id"), "{refused:?}");
    assert_unavailable(&get("/api/v1/runs"), "FL1307");
    for figures in [get("/metrics"), open.get("/metrics")] {
        for line in ["flowloom_ready 0", "flowloom_database_up 0", "flowloom_runs_live 0"] {
            assert!(figures.status == 200 && figures.body.lines().any(|found| found == line), "{line}: {figures:?}");
        }
    }
    assert!(open.get("/metrics").body.contains("flowloom_database_outages_total 1\n"), "{}", open.read_log());
    proxy.restore();
    [&open, &closed].into_iter().for_each(wait_until_ready);
    let log = open.read_log();
    let about: Vec<&str> = log.lines().filter(|line| line.contains("FL1307")).collect();
    assert!(about.iter().all(|line| line.contains("\"WARN\"")), "{log}");
    assert_eq!(about.iter().filter(|line| line.contains("work that needs the database waits")).count(), 1, "{log}");
    let refusal = about.iter().find(|line| line.contains("refused the start of a run")).expect("a line");
    assert!(refusal.contains("\"workflow\":\"hello\"") && !log.contains("continues later"), "{log}");
}

/// Starts a run, has `cause` do something to its database, and `repair` undo it after the request was answered. The server
/// is cut off meanwhile, because a session that began just before keeps the old properties of the database.
fn assert_fault_interrupts_no_run(
    cause: impl FnOnce(&test_postgres::TestDatabase),
    repair: impl FnOnce(&test_postgres::TestDatabase),
    code: &str,
) {
    let Some(database) = test_postgres::TestDatabase::create_database() else { return };
    let world = TestServer::start();
    let (proxy, url) = CuttableProxy::start_for(&database);
    let (_place, server, run) = start_run_with_post(&world, &url);
    proxy.cut();
    cause(&database);
    proxy.restore();
    assert_unavailable(&server.get("/health/ready"), code);
    world.release_slow();
    let refused = server.post("/api/v1/runs", &json!({"workflow": "flow"}));
    // On a busy machine the last attempt to commit can take too long to be waited for: then the run may start later.
    let is_unknown = refused.body.contains("whether it has stored this is unknown");
    match is_unknown {
        true => assert_eq!((refused.status, refused.error_code().as_str()), (503, "FL1307"), "{refused:?}"),
        false => {
            // A commit may have met the end of its session instead of the fault.
            let met = if refused.error_code() == "FL1307" { "FL1307" } else { code };
            assert_unavailable(&refused, met);
        }
    }
    repair(&database);
    assert_run_succeeds(&server, &run);
    let most = 1 + u32::from(is_unknown);
    assert!((1..=most).contains(&world.request_count("/slow")), "{}", world.request_count("/slow"));
    assert_eq!(server.get("/health/ready").status, 200);
}

#[test]
fn a_failover_to_a_server_that_is_read_only_interrupts_no_run() {
    assert_fault_interrupts_no_run(
        |database| database.alter_database("set default_transaction_read_only = on"),
        |database| database.alter_database("reset default_transaction_read_only"),
        "FL1303",
    );
}

#[test]
fn a_database_that_refuses_its_user_interrupts_no_run() {
    assert_fault_interrupts_no_run(
        |database| database.alter_database("with allow_connections false"),
        |database| database.alter_database("with allow_connections true"),
        "FL1310",
    );
}

#[test]
fn a_locked_table_with_a_statement_timeout_interrupts_no_run() {
    assert_fault_interrupts_no_run(
        |database| {
            database.run_sql("create table repaired (yes int)");
            database.alter_database("set statement_timeout = '300ms'");
            let url = database.url.clone();
            std::thread::spawn(move || {
                test_postgres::run_sql(
                    &url,
                    "set statement_timeout = 0; do $$ begin lock table run in access exclusive mode; \
                     while not exists (select from repaired) loop perform pg_sleep(0.05); end loop; end $$",
                )
            });
            let held = "select 'held' from pg_locks where relation = 'run'::regclass and mode = 'AccessExclusiveLock'";
            while database.query_texts(held).is_empty() {}
        },
        |database| database.run_sql("insert into repaired values (1)"),
        "FL1306",
    );
}

/// After an outage that is longer than the lease, every lease has expired, although both servers live.
#[test]
fn an_outage_longer_than_the_lease_takes_no_run_from_its_server() {
    let Some(database) = test_postgres::TestDatabase::create_database() else { return };
    let (proxy, url) = CuttableProxy::start_for(&database);
    let world = TestServer::start();
    let settings = format!("{url}lease_ms = {}\n", SHORT_LEASE.as_millis());
    let pair = [start_run_with_post(&world, &settings), start_run_with_post(&world, &settings)];
    let mut runs: Vec<String> = pair.iter().map(|(_, _, run)| run.clone()).collect();
    for number in 2..6 {
        let started = pair[number % 2].1.post("/api/v1/runs", &json!({"workflow": "flow"}));
        runs.push(started.json()["run_id"].as_str().expect("an id").to_owned());
    }
    world.wait_for_requests("/slow", runs.len() as u32);
    proxy.cut();
    // Waiting is the only way to let the leases expire.
    std::thread::sleep(SHORT_LEASE * 2);
    proxy.restore();
    // Both servers have looked for abandoned runs when they answer, and do so every tenth of a second.
    for (_, server, _) in &pair {
        wait_until_ready(server);
    }
    std::thread::sleep(SHORT_LEASE / 2);
    world.release_slow();
    for run in &runs {
        assert_run_succeeds(&pair[0].1, run);
    }
    assert_eq!(world.request_count("/slow") as usize, runs.len());
}

/// The same if no server can write for that time, and the other server has no run, so that it does not try to.
#[test]
fn a_read_only_time_longer_than_the_lease_takes_no_run_from_its_server() {
    let Some(database) = test_postgres::TestDatabase::create_database() else { return };
    let world = TestServer::start();
    let settings = format!("database = {:?}\nlease_ms = {}\n", database.url, SHORT_LEASE.as_millis());
    let (_place, server, run) = start_run_with_post(&world, &settings);
    let idle_place = Workspace::new(&format!("{settings}recovery_interval_ms = 100\n{}", world.egress_config()));
    let idle = RunningServer::start(&idle_place, &[]);
    database.alter_database("set default_transaction_read_only = on");
    database.close_connections();
    // Waiting is the only way to let the lease expire.
    std::thread::sleep(SHORT_LEASE * 3);
    database.alter_database("reset default_transaction_read_only");
    [&server, &idle].into_iter().for_each(wait_until_ready);
    world.release_slow();
    assert_run_succeeds(&server, &run);
    assert_eq!(world.request_count("/slow"), 1);
}

fn wait_until_ready(server: &RunningServer) {
    let end = Instant::now() + Duration::from_secs(60);
    while server.get("/health/ready").status != 200 {
        assert!(Instant::now() < end, "{}", server.read_log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A proxy in front of Postgres that can lose all its connections.
struct CuttableProxy {
    port: u16,
    /// The open connections; `None` while the proxy is cut.
    clients: Arc<Mutex<Option<Vec<TcpStream>>>>,
}

impl CuttableProxy {
    /// A proxy in front of a database, and the setting that names it.
    fn start_for(database: &test_postgres::TestDatabase) -> (CuttableProxy, String) {
        let proxy = CuttableProxy::start(database.socket_path());
        let name = database.url.split('/').nth(3).and_then(|rest| rest.split('?').next()).expect("a name");
        let setting = format!("database = \"postgres://postgres@127.0.0.1:{}/{name}\"\n", proxy.port);
        (proxy, setting)
    }

    fn start(socket: String) -> CuttableProxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let clients = Arc::new(Mutex::new(Some(Vec::new())));
        let shared = clients.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if let Some(open) = &mut *shared.lock().expect("not poisoned") {
                    open.push(client.try_clone().expect("a handle"));
                    forward_both_ways(client, UnixStream::connect(&socket).expect("it listens"));
                }
            }
        });
        CuttableProxy { port, clients }
    }

    fn cut(&self) {
        for client in self.clients.lock().expect("not poisoned").take().into_iter().flatten() {
            let _ = client.shutdown(Shutdown::Both);
        }
    }

    fn restore(&self) {
        *self.clients.lock().expect("not poisoned") = Some(Vec::new());
    }
}

fn forward_both_ways(client: TcpStream, server: UnixStream) {
    let (mut from_client, mut to_client) = (client.try_clone().expect("a handle"), client);
    let (mut from_server, mut to_server) = (server.try_clone().expect("a handle"), server);
    std::thread::spawn(move || {
        let _ = copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Both);
    });
    std::thread::spawn(move || {
        let _ = copy(&mut from_server, &mut to_client);
        let _ = to_client.shutdown(Shutdown::Both);
    });
}

/// SQLite continues to write into a file that was deleted, without an error.
#[test]
fn a_data_folder_that_is_gone_is_noticed() {
    let place = Workspace::with_hello("");
    let server = RunningServer::start(&place, &[]);
    let start = || server.post("/api/v1/runs?wait=60", &json!({"workflow": "hello", "inputs": "hi"}));
    assert_eq!(start().json()["status"], "succeeded");
    std::fs::rename(place.path("data"), place.path("moved")).expect("moved");
    assert_unavailable(&server.get("/health/ready"), "FL1311");
    assert_unavailable(&start(), "FL1311");
    std::fs::rename(place.path("moved"), place.path("data")).expect("moved back");
    assert_eq!(server.get("/health/ready").status, 200);
    assert_eq!(start().json()["status"], "succeeded");
    drop(server);

    let world = TestServer::start();
    let place = Workspace::new(&format!("default_model = \"scripted:echo\"\n{}", world.egress_config()));
    place.write("flow.json", &two_calls_flow(&world, "GET", "/slow"));
    let child = place.start(&["run", "flow.json"]);
    world.wait_for_requests("/slow", 1);
    std::fs::remove_dir_all(place.path("data")).expect("removed");
    world.release_slow();
    let output = child.wait_with_output().expect("it ended");
    let shown = stderr_text(&output);
    assert_eq!(exit_code(&output), 1, "{shown}");
    assert!(shown.contains("error[FL1311]") && !shown.contains("flowloom resume"), "{shown}");
}
