//! Databases for tests, and records to write to them.
#![allow(dead_code)]

use std::sync::Arc;
use std::time::Duration;

use flowloom_core::StepError;
use flowloom_core::event::{Event, Record, RunCreated};
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::limits::Limits;
use flowloom_core::path::Path;
use flowloom_core::plan::Format;
use flowloom_core::value::Value;
use flowloom_runtime::journal::{Append, Journal, Lease};
use flowloom_store::{Database, Durability, Settings, Store};

/// Runs each of these tests on SQLite and on Postgres.
#[allow(unused_macros)]
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod on_sqlite {
            $(#[tokio::test]
            async fn $name() {
                super::$name(&super::Place::sqlite()).await;
            })*
        }
        mod on_postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if let Some(place) = super::Place::postgres() {
                    super::$name(&place).await;
                }
            })*
        }
    };
}

/// The database of one test. Any number of processes may open it.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    pub(crate) postgres: Option<test_postgres::Database>,
    pub(crate) lease: Duration,
}

impl Place {
    pub(crate) fn sqlite() -> Place {
        Place { folder: tempfile::tempdir().expect("a folder"), postgres: None, lease: Duration::from_secs(60) }
    }

    /// `None` if no Postgres is available.
    pub(crate) fn postgres() -> Option<Place> {
        Some(Place { postgres: Some(test_postgres::Database::create()?), ..Place::sqlite() })
    }

    /// Opens the database as another process would.
    pub(crate) fn open(&self) -> Arc<Store> {
        self.open_at(self.postgres.as_ref().map(|postgres| postgres.url.as_str()), Durability::Normal)
    }

    pub(crate) fn open_at(&self, url: Option<&str>, durability: Durability) -> Arc<Store> {
        let database = url.map(|url| Database::parse(url).expect("an address"));
        let settings = Settings { database, lease: self.lease, ..Settings::of(self.folder.path(), durability) };
        Store::open_with(&settings).expect("it opens")
    }
}

pub(crate) fn id(n: u8) -> RunId {
    RunId::new(u64::from(n) + 1, [n; 10])
}

pub(crate) fn record(run: RunId, seq: u64, event: Event) -> Arc<Record> {
    Arc::new(Record { run, seq, at: 1000 + seq, path: Path::parse("/a").expect("a path"), attempt: 1, event })
}

/// The first event of a run whose bundle has this hash.
pub(crate) fn created_of(bundle: Hash) -> Event {
    Event::RunCreated(Box::new(RunCreated {
        engine_semantics: 1,
        format: Format::new("steps"),
        name: "test".into(),
        bundle,
        inputs: Value::Null,
        owner: "ann".into(),
        agent: None,
        limits: Limits::default(),
        depth: 0,
        workflow: None,
        keep: None,
    }))
}

pub(crate) fn created(store: &Store) -> Event {
    created_of(store.keep_bundle("the bundle"))
}

pub(crate) fn finished(output: Value) -> Event {
    Event::StepFinished { output: Some(output), usage: None, memory: Vec::new() }
}

pub(crate) async fn append(journal: &dyn Journal, lease: Lease, records: Vec<Arc<Record>>) -> Result<(), StepError> {
    match journal.append(lease, records) {
        Append::Done(result) => result,
        Append::Later(later) => later.await,
    }
}
