//! Damaged, read-only and full SQLite databases: the error codes, and that no acknowledged write is lost.

mod support;

use std::path::Path as FilePath;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use flowloom_core::code::Code;
use flowloom_core::event::MemoryWrite;
use flowloom_runtime::journal::Journal;
use flowloom_store::{Actor, AuditFilter, BlockQuery, Durability, KeyRow, RestoreOptions, Store, restore_backup};

use support::{append_records, created_event, finished_event, new_record, run_id};

fn open_store(folder: &FilePath) -> Arc<Store> {
    Store::open(folder, Durability::Normal).expect("it opens")
}

fn refusal_of(folder: &FilePath) -> Code {
    Store::open(folder, Durability::Normal).map(|_| ()).expect_err("refused").code()
}

/// A folder in its place is refused to root, too.
#[test]
fn a_database_that_cannot_be_written_is_not_called_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("flowloom.db")).expect("created");
    let refused = Store::open(folder.path(), Durability::Normal).map(|_| ()).expect_err("refused");
    assert!(refused.to_string().starts_with("the database cannot be written: "), "{refused}");
    assert_eq!(refused.code(), Code::StoreReadOnly);
}

#[test]
fn an_unwell_database_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("flowloom.db");
    std::fs::write(&file, "this is no database, but long enough to look at as one ".repeat(100)).expect("written");
    assert_eq!(refusal_of(folder.path()), Code::StoreCorrupt);
    let newer = tempfile::tempdir().expect("a folder");
    drop(open_store(newer.path()));
    let connection = rusqlite::Connection::open(newer.path().join("flowloom.db")).expect("it opens");
    connection.execute_batch("PRAGMA user_version = 99").expect("set");
    drop(connection);
    assert_eq!(refusal_of(newer.path()), Code::StoreNewer);
    let options = RestoreOptions { replaces: true, allows_damage: false };
    let backup = newer.path().join("flowloom.db");
    let restored = restore_backup(tempfile::tempdir().expect("a folder").path(), &backup, options);
    let refused = restored.map(|_| ()).expect_err("refused");
    assert!(refused.to_string().starts_with(&format!("{} has schema version 99", backup.display())), "{refused}");
    assert_eq!(refused.code(), Code::StoreNewer);
    assert_eq!(refusal_of(FilePath::new("/proc/no/such/folder")), Code::StoreReadOnly);
}

#[test]
fn blocks_of_a_database_from_before_the_search_are_found_after_it_is_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    let connection = rusqlite::Connection::open(folder.path().join("flowloom.db")).expect("it opens");
    let migrations = [
        include_str!("../src/schema.sql"),
        include_str!("../src/schema-2.sql"),
        include_str!("../src/schema-3.sql"),
        include_str!("../src/schema-4.sql"),
        include_str!("../src/schema-5.sql"),
        include_str!("../src/schema-6.sql"),
        "insert into definition (holder, kind, id, version, hash, content, origin, created_at, updated_at) values
         ('ann', 'block', 'x', 1, 'h', '{\"id\": \"x\", \"description\": \"Fetches a page.\"}', 'api', 1, 1);
         PRAGMA user_version = 6",
    ];
    migrations.into_iter().for_each(|sql| connection.execute_batch(sql).expect("migrated"));
    drop(connection);
    let query = BlockQuery { user: "ann", words: "fetch", vector: None, limit: 5 };
    let found = open_store(folder.path()).search_blocks(query).expect("readable");
    assert_eq!(found.iter().map(|found| &*found.id).collect::<Vec<_>>(), ["x"]);
}

#[tokio::test]
async fn the_audit_log_is_append_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open_store(folder.path());
    store.put_key(KeyRow { id: "k".into(), ..KeyRow::default() }, &Actor::command_line()).await.expect("stored");
    let connection = rusqlite::Connection::open(folder.path().join("flowloom.db")).expect("it opens");
    for sql in ["update audit set key_name = 'x'", "delete from audit"] {
        let refused = connection.execute(sql, []).expect_err("the log stays as it is");
        assert!(refused.to_string().contains("append-only"), "{refused}");
    }
    assert_eq!(store.list_audit(&AuditFilter { limit: 9, ..AuditFilter::default() }).expect("readable").len(), 1);
}

/// An append that is not stored after this time waits for something.
const STORED_WITHIN: Duration = Duration::from_secs(3);

#[tokio::test]
async fn a_full_database_loses_nothing_and_its_writers_wait_for_space() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open_store(folder.path());
    let lease = store.begin_run(run_id(1)).expect("new");
    append_records(&*store, lease, vec![new_record(run_id(1), 1, created_event(&store))]).await.expect("stored");
    store.limit_pages(20).expect("limited");
    let mut acknowledged = 1;
    let read_count = || async { open_store(folder.path()).read(run_id(1), 0).await.expect("readable").len() as u64 };
    loop {
        let big = finished_event("x".repeat(3_000).into());
        let mut append = pin!(append_records(&*store, lease, vec![new_record(run_id(1), acknowledged + 1, big)]));
        if let Ok(appended) = tokio::time::timeout(STORED_WITHIN, &mut append).await {
            appended.expect("stored");
            acknowledged += 1;
            continue;
        }
        // A request waits a few seconds, and then fails with the reason.
        let write = MemoryWrite { key: "k".into(), value: Some("x".repeat(3_000).into()) };
        let refused = store.write_memory("ann".to_owned(), vec![write]).await.expect_err("there is no space");
        assert_eq!(refused.code(), Code::StoreFull, "{refused}");
        assert_eq!(read_count().await, acknowledged);
        store.limit_pages(1000).expect("there is space");
        append.await.expect("stored when there is space");
        break;
    }
    assert_eq!(read_count().await, acknowledged + 1);
}
