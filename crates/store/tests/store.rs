//! The store on a real database: what it keeps, what it refuses, and what it says when the database is unwell.

use std::path::Path as FilePath;
use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::event::{Event, MemoryWrite, Record, RunCreated};
use flowloom_core::id::RunId;
use flowloom_core::limits::Limits;
use flowloom_core::path::Path;
use flowloom_core::plan::Format;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_runtime::journal::{Append, Journal, Lease, thread_holder};
use flowloom_store::{Durability, Store};

fn open(folder: &FilePath) -> Arc<Store> {
    Store::open(folder, Durability::Normal).expect("it opens")
}

fn id(n: u8) -> RunId {
    RunId::new(u64::from(n) + 1, [n; 10])
}

fn record(run: RunId, seq: u64, event: Event) -> Arc<Record> {
    Arc::new(Record { run, seq, at: 1000 + seq, path: Path::parse("/a").expect("a path"), attempt: 1, event })
}

fn created(store: &Store) -> Event {
    Event::RunCreated(Box::new(RunCreated {
        engine_semantics: 1,
        format: Format::Steps,
        name: "test".into(),
        bundle: store.keep_bundle("the bundle"),
        inputs: Value::Null,
        owner: "ann".into(),
        agent: None,
        limits: Limits::default(),
        depth: 0,
        workflow: None,
        keep: None,
    }))
}

fn finished(output: Value) -> Event {
    Event::StepFinished { output: Some(output), usage: None, memory: Vec::new() }
}

async fn append(store: &Store, lease: Lease, records: Vec<Arc<Record>>) -> Result<(), flowloom_core::StepError> {
    match store.append(lease, records) {
        Append::Done(result) => result,
        Append::Later(later) => later.await,
    }
}

#[tokio::test]
async fn what_is_written_is_read_by_another_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let run = id(1);
    let lease = store.begin(run).expect("new");
    let large: Value = "é".repeat(10_000).into();
    let number = flowloom_core::json::parse_value("[1.0, 12345678901234567890, null]").expect("JSON");
    let records = vec![
        record(run, 1, created(&store)),
        record(run, 2, Event::RunStarted { epoch: 1 }),
        record(run, 3, finished(large.clone())),
        record(run, 4, finished(number)),
        record(run, 5, Event::StepUncertain),
    ];
    append(&store, lease, records.clone()).await.expect("stored");
    let other = open(folder.path());
    assert_eq!(other.read(run, 0).await.expect("readable"), records);
    assert_eq!(other.read(run, 4).await.expect("readable"), records[4..]);
    assert_eq!(&*other.bundle(flowloom_core::Hash::of(b"the bundle")).expect("kept"), "the bundle");
    assert_eq!(other.find("last").expect("a run").id, run);
}

#[tokio::test]
async fn memory_is_written_with_its_event_and_belongs_to_its_owner() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let lease = store.begin(id(1)).expect("new");
    let memory = vec![MemoryWrite { key: "k".into(), value: Some(7.into()) }];
    let write = Event::StepFinished { output: None, usage: None, memory };
    let records = vec![record(id(1), 1, created(&store)), record(id(1), 2, write)];
    append(&store, lease, records).await.expect("stored");
    assert_eq!(store.memory("ann", "k").await.expect("readable"), Some(7.into()));
    assert_eq!(store.memory("bob", "k").await.expect("readable"), None);
}

#[tokio::test]
async fn one_owner_at_a_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (open(folder.path()), open(folder.path()));
    let lease = first.begin(id(1)).expect("new");
    append(&first, lease, vec![record(id(1), 1, created(&first))]).await.expect("stored");
    assert_eq!(second.claim(id(1)).await.expect_err("owned").code, Code::RunOwned);
    assert_eq!(first.claim(id(1)).await.expect_err("owned").code, Code::RunOwned);
    first.release(lease);
    let again = first.claim(id(1)).await.expect("released");
    assert_eq!(again.epoch, 2);
    let late = append(&first, lease, vec![record(id(1), 2, Event::StepUncertain)]).await;
    assert_eq!(late.expect_err("an old lease").code, Code::OwnershipLost);
    drop(first);
    assert_eq!(second.claim(id(1)).await.expect("its owner is gone").epoch, 3);
}

#[tokio::test]
async fn runs_are_found_by_prefix() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    for n in [1, 2] {
        let lease = store.begin(id(n)).expect("new");
        let end = Event::RunFinished { status: Status::Succeeded, error: None, failed: None, said: None };
        let records = vec![record(id(n), 1, created(&store)), record(id(n), 2, end)];
        append(&store, lease, records).await.expect("stored");
    }
    let rows = store.runs(10).expect("a list");
    assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), [id(2), id(1)]);
    assert_eq!(store.find(&id(1).to_string()).expect("whole").status, "succeeded");
    assert_eq!(store.find("0000").expect_err("both").code, Code::RunAmbiguous);
    assert_eq!(store.find("ffff").expect_err("none").code, Code::RunNotFound);
}

#[tokio::test]
async fn a_conversation_is_kept_in_the_transaction_of_the_runs_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let lease = store.begin(id(1)).expect("new");
    append(&store, lease, vec![record(id(1), 1, created(&store))]).await.expect("stored");
    let holder = thread_holder("ann");
    let end = |said: &str| {
        let said = Some(MemoryWrite { key: "desk".into(), value: Some(Value::list(vec![said.into()])) });
        Event::RunFinished { status: Status::Succeeded, error: None, failed: None, said }
    };
    let stale = Lease { epoch: 9, ..lease };
    append(&store, stale, vec![record(id(1), 2, end("lost"))]).await.expect_err("another owner's");
    // The second record of the batch is there already, so that the whole batch is refused.
    let batch = vec![record(id(1), 2, end("half")), record(id(1), 1, Event::StepUncertain)];
    append(&store, lease, batch).await.expect_err("refused as a whole");
    assert_eq!(store.memory(&holder, "desk").await.expect("readable"), None);
    assert_eq!(store.find(&id(1).to_string()).expect("there").finished_at, None);
    append(&store, lease, vec![record(id(1), 2, end("hello"))]).await.expect("stored");
    drop(store);
    let store = open(folder.path());
    assert_eq!(store.memory(&holder, "desk").await.expect("readable"), Some(Value::list(vec!["hello".into()])));
}

fn refusal(folder: &FilePath) -> Code {
    Store::open(folder, Durability::Normal).map(|_| ()).expect_err("refused").code
}

#[test]
fn an_unwell_database_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("flowloom.db");
    std::fs::write(&file, "this is no database, but long enough to look at as one ".repeat(100)).expect("written");
    assert_eq!(refusal(folder.path()), Code::StoreCorrupt);
    let newer = tempfile::tempdir().expect("a folder");
    drop(open(newer.path()));
    let connection = rusqlite::Connection::open(newer.path().join("flowloom.db")).expect("it opens");
    connection.execute_batch("PRAGMA user_version = 99").expect("set");
    drop(connection);
    assert_eq!(refusal(newer.path()), Code::StoreNewer);
    assert_eq!(refusal(FilePath::new("/proc/no/such/folder")), Code::StoreReadOnly);
}

#[tokio::test]
async fn a_full_database_loses_nothing_that_was_acknowledged() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let lease = store.begin(id(1)).expect("new");
    append(&store, lease, vec![record(id(1), 1, created(&store))]).await.expect("stored");
    store.limit_pages(20).expect("limited");
    let mut acknowledged = 1;
    let error = loop {
        let big = finished("x".repeat(3_000).into());
        match append(&store, lease, vec![record(id(1), acknowledged + 1, big)]).await {
            Ok(()) => acknowledged += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.code, Code::StoreFull, "{error}");
    let kept = open(folder.path()).read(id(1), 0).await.expect("readable");
    assert_eq!(kept.len() as u64, acknowledged);
}

#[tokio::test]
async fn many_runs_share_commits() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path(), Durability::Full).expect("it opens");
    let before = store.commits();
    let pending: Vec<_> = (0..200)
        .map(|n| {
            let lease = store.begin(id(n)).expect("new");
            store.append(lease, vec![record(id(n), 1, created(&store))])
        })
        .collect();
    for append in pending {
        match append {
            Append::Done(result) => result.expect("stored"),
            Append::Later(later) => later.await.expect("stored"),
        }
    }
    assert_eq!(store.runs(1000).expect("a list").len(), 200);
    assert!(store.commits() - before < 150, "{} commits", store.commits() - before);
}
