//! Databases for tests, and records to write to them.
#![allow(dead_code)]

use std::sync::Arc;
use std::time::Duration;

use flowloom_core::event::{Event, Record, RunCreated};
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::limits::Limits;
use flowloom_core::path::Path;
use flowloom_core::plan::Format;
use flowloom_core::value::Value;
use flowloom_runtime::JournalError;
use flowloom_runtime::journal::{AppendResult, Batch, Journal, Lease, LeaseState};
use flowloom_store::{Database, Durability, Quotas, RecoveryScope, Store, StoreSettings};

/// Runs each of these tests on SQLite and on Postgres.
#[allow(unused_macros)]
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod on_sqlite {
            $(#[tokio::test]
            async fn $name() {
                super::$name(&super::TestDatabase::on_sqlite()).await;
            })*
        }
        mod on_postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if let Some(place) = super::TestDatabase::on_postgres() {
                    super::$name(&place).await;
                }
            })*
        }
    };
}

/// The database of one test. Any number of processes may open it.
pub(crate) struct TestDatabase {
    folder: tempfile::TempDir,
    pub(crate) postgres: Option<test_postgres::TestDatabase>,
    pub(crate) lease: Duration,
}

impl TestDatabase {
    pub(crate) fn on_sqlite() -> TestDatabase {
        TestDatabase { folder: tempfile::tempdir().expect("a folder"), postgres: None, lease: Duration::from_secs(60) }
    }

    /// `None` if no Postgres is available.
    pub(crate) fn on_postgres() -> Option<TestDatabase> {
        Some(TestDatabase {
            postgres: Some(test_postgres::TestDatabase::create_database()?),
            ..TestDatabase::on_sqlite()
        })
    }

    /// The file of a SQLite database.
    pub(crate) fn database_file(&self) -> std::path::PathBuf {
        self.folder.path().join("flowloom.db")
    }

    /// Opens the database as another process would.
    pub(crate) fn open(&self) -> Arc<Store> {
        self.open_at(self.postgres.as_ref().map(|postgres| postgres.url.as_str()), Durability::Normal)
    }

    /// Opens the database as another process with quotas would.
    pub(crate) fn open_with_quotas(&self, quotas: Quotas) -> Arc<Store> {
        let database = self.postgres.as_ref().map(|postgres| Database::parse(&postgres.url).expect("an address"));
        let settings = StoreSettings::for_folder(self.folder.path(), Durability::Normal);
        Store::open_with(&StoreSettings { database, lease: self.lease, quotas, ..settings }).expect("it opens")
    }

    /// Opens the database as a process of a project with a name would.
    pub(crate) fn open_for_project(&self, project: &str) -> Arc<Store> {
        let database = self.postgres.as_ref().map(|postgres| Database::parse(&postgres.url).expect("an address"));
        let settings = StoreSettings::for_folder(self.folder.path(), Durability::Normal);
        let recovery = RecoveryScope { project: project.to_owned(), config: None };
        Store::open_with(&StoreSettings { database, lease: self.lease, recovery, ..settings }).expect("it opens")
    }

    pub(crate) fn open_at(&self, url: Option<&str>, durability: Durability) -> Arc<Store> {
        let database = url.map(|url| Database::parse(url).expect("an address"));
        let settings =
            StoreSettings { database, lease: self.lease, ..StoreSettings::for_folder(self.folder.path(), durability) };
        Store::open_with(&settings).expect("it opens")
    }
}

pub(crate) fn run_id(n: u8) -> RunId {
    RunId::new(u64::from(n) + 1, [n; 10])
}

pub(crate) fn new_record(run: RunId, seq: u64, event: Event) -> Arc<Record> {
    Arc::new(Record { run, seq, at: 1000 + seq, path: Path::parse("/a").expect("a path"), attempt: 1, event })
}

/// The first event of a run whose bundle has this hash.
pub(crate) fn created_with_bundle(bundle: Hash) -> Event {
    Event::RunCreated(Box::new(RunCreated {
        engine_semantics: 1,
        format: Format::new("steps"),
        name: "test".into(),
        bundle,
        inputs: Value::Null,
        user: "ann".into(),
        agent: None,
        limits: Limits::default(),
        depth: 0,
        parent: None,
        workflow: None,
        thread_key: None,
        project: None,
        trace: None,
        fork: None,
        asks_first: false,
        trigger: None,
    }))
}

pub(crate) fn created_event(store: &Store) -> Event {
    created_with_bundle(store.hold_bundle("the bundle"))
}

pub(crate) fn finished_event(output: Value) -> Event {
    Event::StepFinished { output: Some(output), usage: None, memory: Vec::new(), reused: false, response: None }
}

pub(crate) async fn append_records(
    journal: &dyn Journal,
    lease: Lease,
    records: Vec<Arc<Record>>,
) -> Result<(), JournalError> {
    append_batch(journal, lease, Batch::with_records(records)).await.map(drop)
}

pub(crate) async fn append_batch(
    journal: &dyn Journal,
    lease: Lease,
    batch: Batch,
) -> Result<LeaseState, JournalError> {
    match journal.append_batch(lease, batch) {
        AppendResult::Done(result) => result,
        AppendResult::Later(later) => later.await,
    }
}
