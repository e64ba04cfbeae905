//! The size of SQLite's write-ahead log, which holds the commits since the last checkpoint.

use std::fs;
use std::path::Path as FilePath;
use std::sync::Arc;

use flowloom_core::event::MemoryWrite;
use flowloom_core::value::Value;
use flowloom_store::{Durability, Store};

/// Size of a value that is written.
const VALUE_BYTES: usize = 1 << 20;

fn open_store(folder: &FilePath) -> Arc<Store> {
    Store::open(folder, Durability::Normal).expect("it opens")
}

fn new_write(number: usize) -> MemoryWrite {
    MemoryWrite { key: format!("k{number}"), value: Some(Value::from("x".repeat(VALUE_BYTES - 2))) }
}

/// Writes values of a megabyte, each in a commit of its own.
async fn write_values(store: &Store, count: usize) {
    for number in 0..count {
        store.write_memory("ann".to_owned(), vec![new_write(number)]).await.expect("stored");
    }
}

fn size_mb(folder: &FilePath, file: &str) -> u64 {
    fs::metadata(folder.join(file)).map_or(0, |file| file.len() >> 20)
}

#[tokio::test]
async fn large_commits_do_not_let_the_log_grow() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open_store(folder.path());
    write_values(&store, 400).await;
    let log_mb = size_mb(folder.path(), "flowloom.db-wal");
    assert!(log_mb < 120, "the log has {log_mb} MB");
}

#[tokio::test]
async fn the_log_of_a_process_that_died_is_moved_into_the_database() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open_store(folder.path());
    store.write_memory("ann".to_owned(), (0..40).map(new_write).collect()).await.expect("stored");
    let copy = tempfile::tempdir().expect("a folder");
    for file in ["flowloom.db", "flowloom.db-wal"] {
        fs::copy(folder.path().join(file), copy.path().join(file)).expect("copied");
    }
    assert!(size_mb(copy.path(), "flowloom.db") < 5, "nothing was moved yet");
    let store = open_store(copy.path());
    // The writer has moved the log before it commits a second time.
    write_values(&store, 2).await;
    let database_mb = size_mb(copy.path(), "flowloom.db");
    assert!(database_mb >= 40, "the database has {database_mb} MB");
}
