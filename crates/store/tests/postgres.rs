//! Failures that only a server can have: it goes away, comes back, loses an acknowledgement, or gives a run to another
//! process.

mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use flowloom_core::code::Code;
use flowloom_core::event::Event;
use flowloom_runtime::SubscribeHandle;
use flowloom_runtime::journal::Journal;
use flowloom_runtime::metrics::{ProcessEvent, read_figures};
use flowloom_store::{Database, Durability, Store, StoreSettings};

use support::{TestDatabase, append_records, created_event, finished_event, new_record, run_id};

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_is_made_again() {
    let Some(place) = TestDatabase::on_postgres() else { return };
    let database = place.postgres.as_ref().expect("a database");
    let store = place.open();
    let lease = store.begin_run(run_id(1)).expect("new");
    append_records(&*store, lease, vec![new_record(run_id(1), 1, created_event(&store))]).await.expect("stored");
    assert_eq!(store.list_runs(9).expect("readable").len(), 1);
    database.close_connections();
    append_records(&*store, lease, vec![new_record(run_id(1), 2, Event::StepUncertain)])
        .await
        .expect("stored on a new connection");
    database.close_connections();
    assert_eq!(store.read(run_id(1), 0).await.expect("readable").len(), 2);
}

#[tokio::test]
async fn it_works_where_one_thread_does_everything() {
    let Some(place) = TestDatabase::on_postgres() else { return };
    let store = place.open();
    let lease = store.begin_run(run_id(1)).expect("new");
    append_records(&*store, lease, vec![new_record(run_id(1), 1, created_event(&store))]).await.expect("stored");
    assert_eq!(store.read(run_id(1), 0).await.expect("readable").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_whose_lease_ran_out_cannot_write() {
    let Some(place) = TestDatabase::on_postgres() else { return };
    let (paused, other) = (place.open(), place.open());
    let lease = paused.begin_run(run_id(1)).expect("new");
    append_records(&*paused, lease, vec![new_record(run_id(1), 1, created_event(&paused))]).await.expect("stored");
    assert_eq!(other.claim_run(run_id(1)).await.expect_err("its owner lives").code(), Code::RunOwned);
    // As if the process had been silent for a long time.
    place.postgres.as_ref().expect("a database").run_sql("update worker set expires_at = now() - interval '1 day'");
    assert_eq!(other.abandoned_runs(9).expect("readable").len(), 1);
    let start = Event::RunStarted { epoch: 1 };
    append_records(&*paused, lease, vec![new_record(run_id(1), 2, start)])
        .await
        .expect("nobody has taken it, so it may");
    assert_eq!(other.claim_run(run_id(1)).await.expect_err("a commit renews the lease").code(), Code::RunOwned);
    place.postgres.as_ref().expect("a database").run_sql("update worker set expires_at = now() - interval '1 day'");
    assert_eq!(other.abandoned_runs(9).expect("readable").len(), 1);
    let taken = other.claim_run(run_id(1)).await.expect("it is silent");
    assert_eq!(taken.epoch, 2);
    let late = append_records(&*paused, lease, vec![new_record(run_id(1), 3, Event::StepUncertain)]).await;
    assert_eq!(late.expect_err("another's now").code(), Code::OwnershipLost);
    append_records(&*other, taken, vec![new_record(run_id(1), 3, Event::StepUncertain)]).await.expect("stored");
    // Releasing a lease that was lost has no effect.
    paused.release_run(lease);
    drop(paused);
    assert!(other.get_run(run_id(1)).expect("readable").expect("there").is_driven);
}

/// It seemed to be dead when the claim began, and has stored something when the claim is stored.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_comes_back_during_a_claim_keeps_its_run() {
    let Some(place) = TestDatabase::on_postgres() else { return };
    let database = place.postgres.as_ref().expect("a database");
    let (paused, other) = (place.open(), place.open());
    let lease = paused.begin_run(run_id(1)).expect("new");
    append_records(&*paused, lease, vec![new_record(run_id(1), 1, created_event(&paused))]).await.expect("stored");
    database.run_sql("update worker set expires_at = now() - interval '1 day'");
    let (client, _connection) = lock_client(&place).await;
    client.batch_execute("begin; select from run for update").await.expect("the lock of the run");
    let mut claim = std::pin::pin!(other.claim_run(run_id(1)));
    assert!(futures_util::poll!(claim.as_mut()).is_pending(), "it waits for the lock");
    let back = "update worker set expires_at = now() + interval '1 hour'; commit";
    client.batch_execute(back).await.expect("a renewal with a commit");
    assert_eq!(claim.await.expect_err("its worker is back").code(), Code::RunOwned);
    assert!(paused.confirm_lease(lease).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_was_lost_is_not_confirmed() {
    let Some(place) = TestDatabase::on_postgres() else { return };
    let (paused, other) = (place.open(), place.open());
    let lease = paused.begin_run(run_id(1)).expect("new");
    assert!(!paused.lease_term().is_current, "nothing has renewed it yet");
    append_records(&*paused, lease, vec![new_record(run_id(1), 1, created_event(&paused))]).await.expect("stored");
    let term = paused.lease_term();
    assert!(term.is_current);
    paused.confirm_lease(lease).await.expect("held");
    assert_eq!(paused.lease_term(), term);
    place.postgres.as_ref().expect("a database").run_sql("update worker set expires_at = now() - interval '1 day'");
    other.claim_run(run_id(1)).await.expect("it is silent");
    assert_eq!(paused.confirm_lease(lease).await.expect_err("another's now").code(), Code::OwnershipLost);
}

#[test]
fn servers_that_start_together_make_the_tables_once() {
    let Some(place) = TestDatabase::on_postgres() else { return };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| place.open());
        }
    });
    place.postgres.as_ref().expect("a database").run_sql("update schema_version set version = 99");
    let url = &place.postgres.as_ref().expect("a database").url;
    assert_eq!(refusal_of(url), (Code::StoreNewer, false));
}

#[test]
fn the_audit_log_is_append_only() {
    let Some(place) = TestDatabase::on_postgres() else { return };
    drop(place.open());
    let database = place.postgres.as_ref().expect("a database");
    database.run_sql("insert into audit (at, source, action, object, result) values (1, 's', 'a', 'o', 'r')");
    for sql in ["update audit set object = 'x'", "delete from audit"] {
        // Fails unless the statement is refused for this reason.
        database.run_sql(&format!(
            "do $$ begin {sql}; raise exception 'it was changed'; exception when others then \
             if sqlerrm not like '%append-only%' then raise; end if; end $$"
        ));
    }
    assert_eq!(database.query_texts("select object from audit"), ["o"]);
}

#[test]
fn a_server_that_cannot_be_used_is_refused_without_a_secret() {
    assert_eq!(refusal_of("postgres://ann:s3cret@127.0.0.1:1/flows"), (Code::StoreUnreachable, false));
    let Some(place) = TestDatabase::on_postgres() else { return };
    let url = place.postgres.as_ref().expect("a database").url.replace("postgres@", "ann:s3cret@");
    assert_eq!(refusal_of(&url), (Code::StoreUnreachable, false), "there is no such user");
    // The server does not support TLS.
    let required = format!("{}&sslmode=require", url);
    assert_eq!(refusal_of(&required), (Code::StoreUnreachable, false));
}

#[test]
fn a_refusal_names_the_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = Database::parse("postgres://ann:s3cret@127.0.0.1:1/flows").expect("an address");
    let settings =
        StoreSettings { database: Some(database), ..StoreSettings::for_folder(folder.path(), Durability::Normal) };
    let error = Store::open_with(&settings).map(|_| ()).expect_err("refused");
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
}

/// The error code with which a database is refused, and whether the message contains the password.
fn refusal_of(url: &str) -> (Code, bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let database = Database::parse(url).expect("an address");
    let settings =
        StoreSettings { database: Some(database), ..StoreSettings::for_folder(folder.path(), Durability::Normal) };
    let error = Store::open_with(&settings).map(|_| ()).expect_err("refused");
    (error.code(), error.to_string().contains("s3cret"))
}

/// A proxy between a store and its server that drops a commit, or its acknowledgement, on request.
struct DroppingProxy {
    port: u16,
    loses: Arc<AtomicU8>,
}

/// The proxy drops nothing.
const DROP_NOTHING: u8 = 0;
const DROP_REPLY: u8 = 1;
const DROP_COMMIT: u8 = 2;
/// Accepts no connection.
const DROP_ALL: u8 = 3;
const DROP_REPLY_THEN_ALL: u8 = 4;
/// Holds everything back until it drops nothing.
const HOLD_ALL: u8 = 5;
/// Holds the next commit back, and then everything.
const HOLD_COMMIT: u8 = 6;

impl DroppingProxy {
    fn start_proxy(socket: String) -> DroppingProxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let loses = Arc::new(AtomicU8::new(DROP_NOTHING));
        let shared = loses.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if shared.load(Ordering::Acquire) == DROP_ALL {
                    continue;
                }
                let server = UnixStream::connect(&socket).expect("it listens");
                let (loses, back) = (shared.clone(), (server.try_clone(), client.try_clone()));
                std::thread::spawn(move || forward_bytes(client, server, &loses));
                if let (Ok(mut server), Ok(mut client)) = back {
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut server, &mut client);
                        let _ = client.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        DroppingProxy { port, loses }
    }
}

fn wait_for_release(loses: &AtomicU8) -> u8 {
    while loses.load(Ordering::Acquire) != DROP_NOTHING {
        std::thread::yield_now();
    }
    DROP_NOTHING
}

fn forward_bytes(mut client: TcpStream, mut server: UnixStream, loses: &AtomicU8) {
    let mut buffer = [0; 65536];
    while let Ok(length @ 1..) = client.read(&mut buffer) {
        let part = &buffer[..length];
        let is_commit = part.windows(7).any(|window| window == b"COMMIT\0");
        let lost = match loses.load(Ordering::Acquire) {
            lost @ (DROP_REPLY | DROP_COMMIT) if is_commit => {
                loses.store(DROP_NOTHING, Ordering::Release);
                lost
            }
            DROP_REPLY_THEN_ALL if is_commit => {
                loses.store(DROP_ALL, Ordering::Release);
                DROP_REPLY
            }
            DROP_ALL => DROP_ALL,
            HOLD_COMMIT if is_commit => {
                loses.store(HOLD_ALL, Ordering::Release);
                wait_for_release(loses)
            }
            HOLD_ALL => wait_for_release(loses),
            _ => DROP_NOTHING,
        };
        if lost != DROP_NOTHING {
            // From now on the client receives nothing.
            let _ = client.shutdown(Shutdown::Both);
            if lost == DROP_REPLY {
                let _ = server.write_all(part);
            } else {
                let _ = server.shutdown(Shutdown::Both);
            }
            return;
        }
        if server.write_all(part).is_err() {
            return;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_lost_or_whose_answer_is_happens_once() {
    let Some(place) = TestDatabase::on_postgres() else { return };
    let (middle, store) = open_through_proxy(&place);
    let lease = store.begin_run(run_id(1)).expect("new");
    append_records(&*store, lease, vec![new_record(run_id(1), 1, created_event(&store))]).await.expect("stored");
    for (seq, lost) in [(2, DROP_REPLY), (3, DROP_COMMIT), (4, DROP_COMMIT), (5, DROP_REPLY)] {
        middle.loses.store(lost, Ordering::Release);
        append_records(&*store, lease, vec![new_record(run_id(1), seq, finished_event("x".into()))])
            .await
            .expect("stored, as it turns out");
        assert_eq!(middle.loses.load(Ordering::Acquire), DROP_NOTHING, "it was lost");
    }
    let numbers: Vec<u64> = place.open().read(run_id(1), 0).await.expect("readable").iter().map(|it| it.seq).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_waits_for_the_server_and_a_request_does_not() {
    let Some(place) = TestDatabase::on_postgres() else { return };
    let (middle, store) = open_through_proxy(&place);
    let lease = store.begin_run(run_id(1)).expect("new");
    append_records(&*store, lease, vec![new_record(run_id(1), 1, created_event(&store))]).await.expect("stored");
    middle.loses.store(DROP_ALL, Ordering::Release);
    let append = append_records(&*store, lease, vec![new_record(run_id(1), 2, Event::StepUncertain)]);
    let (appended, ()) = tokio::join!(append, async {
        let refused = store.check_writable().await.expect_err("there is no server");
        assert_eq!(refused.code(), Code::StoreUnreachable);
        middle.loses.store(DROP_NOTHING, Ordering::Release);
    });
    appended.expect("stored when the server is back");
    store.check_writable().await.expect("it is back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_outcome_is_unknown_for_a_while_happens_once() {
    let Some(place) = TestDatabase::on_postgres() else { return };
    let (middle, store) = open_through_proxy(&place);
    let lease = store.begin_run(run_id(1)).expect("new");
    append_records(&*store, lease, vec![new_record(run_id(1), 1, created_event(&store))]).await.expect("stored");
    middle.loses.store(DROP_REPLY_THEN_ALL, Ordering::Release);
    let append = append_records(&*store, lease, vec![new_record(run_id(1), 2, finished_event("x".into()))]);
    let (appended, ()) = tokio::join!(append, async {
        while middle.loses.load(Ordering::Acquire) != DROP_ALL {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // Several attempts to reconnect fail.
        tokio::time::sleep(Duration::from_millis(300)).await;
        middle.loses.store(DROP_NOTHING, Ordering::Release);
    });
    appended.expect("stored, as it turns out");
    assert_eq!(store.read(run_id(1), 0).await.expect("readable").len(), 2);
}

/// As when the server is stopped: it keeps its sessions, and does not answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_is_an_outage() {
    let Some(place) = TestDatabase::on_postgres() else { return };
    let (middle, store) = open_impatient(&place);
    let lease = store.begin_run(run_id(1)).expect("new");
    append_records(&*store, lease, vec![new_record(run_id(1), 1, created_event(&store))]).await.expect("stored");
    middle.loses.store(HOLD_ALL, Ordering::Release);
    let append = append_records(&*store, lease, vec![new_record(run_id(1), 2, finished_event("x".into()))]);
    let (appended, ()) = tokio::join!(append, async {
        for _ in 0..3 {
            assert_eq!(store.list_runs(1).expect_err("no answer").code(), Code::StoreUnreachable);
        }
        assert_eq!(store.check_writable().await.expect_err("no answer").code(), Code::StoreUnreachable);
        middle.loses.store(DROP_NOTHING, Ordering::Release);
    });
    appended.expect("stored when the server continues");
    store.check_writable().await.expect("it is back");
    let numbers: Vec<u64> = place.open().read(run_id(1), 0).await.expect("readable").iter().map(|it| it.seq).collect();
    assert_eq!(numbers, [1, 2]);
}

/// It may be stored when the server continues, so the run must be there.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_waits_for_a_server_that_hangs_once_it_was_sent() {
    let Some(place) = TestDatabase::on_postgres() else { return };
    let (middle, store) = open_impatient(&place);
    store.check_writable().await.expect("stored");
    let lease = store.begin_run(run_id(1)).expect("new");
    middle.loses.store(HOLD_COMMIT, Ordering::Release);
    let created = append_records(&*store, lease, vec![new_record(run_id(1), 1, created_event(&store))]);
    let (created, ()) = tokio::join!(created, async {
        store.check_writable().await.expect_err("no answer");
        middle.loses.store(DROP_NOTHING, Ordering::Release);
    });
    created.expect("stored when the server continues");
    assert_eq!(place.open().read(run_id(1), 0).await.expect("readable").len(), 1);
}

/// Long before the connection is given up.
#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_server_is_counted_when_the_first_caller_gives_up() {
    let Some(place) = TestDatabase::on_postgres() else { return };
    let (middle, store) = open_through_proxy(&place);
    store.check_writable().await.expect("stored");
    middle.loses.store(HOLD_COMMIT, Ordering::Release);
    store.check_writable().await.expect_err("no answer");
    assert_eq!(read_figures().count_of(ProcessEvent::DatabaseOutage), 1);
    middle.loses.store(DROP_NOTHING, Ordering::Release);
}

/// A table that another client has locked.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_table_is_an_outage() {
    let Some(place) = TestDatabase::on_postgres() else { return };
    let (_middle, store) = open_impatient(&place);
    let (client, connection) = lock_client(&place).await;
    client.batch_execute("begin; lock table run").await.expect("the lock");
    assert_eq!(store.list_runs(1).expect_err("it is locked").code(), Code::StoreLocked);
    client.batch_execute("rollback").await.expect("unlocked");
    assert_eq!(store.list_runs(1).expect("readable").len(), 0);
    connection.abort();
}

async fn lock_client(place: &TestDatabase) -> (tokio_postgres::Client, tokio::task::JoinHandle<()>) {
    let url = &place.postgres.as_ref().expect("a database").url;
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("a session");
    (client, tokio::spawn(async move { drop(connection.await) }))
}

/// A store behind a [`DroppingProxy`] that soon gives up waiting for an answer.
fn open_impatient(place: &TestDatabase) -> (DroppingProxy, Arc<Store>) {
    let (middle, url) = start_proxy_of(place);
    let database = Database::parse(&url).expect("an address").with_answer_timeout(Duration::from_millis(300));
    let settings = StoreSettings {
        database: Some(database),
        ..StoreSettings::for_folder(place.database_file().parent().expect("a folder"), Durability::Normal)
    };
    (middle, Store::open_with(&settings).expect("a store"))
}

/// A store whose connections pass through a [`DroppingProxy`].
fn open_through_proxy(place: &TestDatabase) -> (DroppingProxy, Arc<Store>) {
    let (middle, url) = start_proxy_of(place);
    let store = place.open_at(Some(&url), Durability::Normal);
    (middle, store)
}

/// A [`DroppingProxy`] of a database, and the URL of the database behind it.
fn start_proxy_of(place: &TestDatabase) -> (DroppingProxy, String) {
    let database = place.postgres.as_ref().expect("a database");
    let middle = DroppingProxy::start_proxy(database.socket_path());
    let name = database.url.split('/').nth(3).and_then(|rest| rest.split('?').next()).expect("a name");
    let url = format!("postgres://postgres@127.0.0.1:{}/{name}", middle.port);
    (middle, url)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_waits_for_a_run_is_notified_when_it_is_withdrawn() {
    let Some(place) = TestDatabase::on_postgres() else { return };
    let (driver, waiter) = (place.open(), place.open());
    let lease = driver.begin_run(run_id(1)).expect("new");
    let relay = driver.text_relay().expect("a relay");
    let mut notified = waiter.text_relay().expect("a relay").wait_for_withdrawal(run_id(1));
    let mut of_another_run = waiter.text_relay().expect("a relay").wait_for_withdrawal(run_id(2));
    // The message that asks for it may arrive after a withdrawal, so that this is repeated.
    let is_notified = async {
        loop {
            relay.announce_run(lease, SubscribeHandle::default());
            relay.withdraw_run(lease);
            if tokio::time::timeout(Duration::from_millis(50), &mut notified).await.is_ok() {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), is_notified).await.expect("it is notified");
    assert!(tokio::time::timeout(Duration::ZERO, &mut of_another_run).await.is_err());
}
