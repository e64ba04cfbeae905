//! [`Store`]: opening, closing and reading the database. The files next to this one add the methods for each table.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use flowloom_runtime::blocking::run_blocking;
use flowloom_runtime::relay::TextRelay;

use crate::commands::Mailboxes;
use crate::db::sqlite::locks::ServerLock;
use crate::db::{self, DbConnection, OpenedDatabase, params};
use crate::error::StoreError;
use crate::held_bundles::HeldBundles;
use crate::memory_runs::MemoryRuns;
use crate::private;
use crate::quota_check::QuotaChecker;
use crate::readers::{JOURNAL_READ_TIMEOUT, LONG_READ_TIMEOUT, Readers};
use crate::search;
use crate::settings::{Durability, RecoveryScope, StoreSettings};
use crate::size_cache::SizeCache;
use crate::usage_cache::UsageCache;
use crate::worker::{self, LocalWorker, NOBODY};
use crate::writer::Writer;

/// A database with all its runs, definitions and users' data.
pub struct Store {
    pub(crate) folder: PathBuf,
    pub(crate) writer: Writer,
    pub(crate) readers: Readers,
    pub(crate) worker: Arc<LocalWorker>,
    pub(crate) mailboxes: Arc<Mailboxes>,
    pub(crate) vectors: search::VectorCache,
    pub(crate) quotas: QuotaChecker,
    pub(crate) recovery: RecoveryScope,
    pub(crate) sizes: SizeCache,
    pub(crate) usage: UsageCache,
    /// Carries text to other processes, if they may be on other machines.
    pub(crate) text_relay: Option<Arc<dyn TextRelay>>,
    /// The runs, if they are stored in memory.
    pub(crate) runs: Option<MemoryRuns>,
    pub(crate) bundles: HeldBundles,
}

impl Store {
    /// Whether runs are in the memory of this process only.
    pub fn is_in_memory(&self) -> bool {
        self.runs.is_some()
    }

    /// Opens SQLite in the data folder, creating both if necessary. Fails like [`Store::open_with`].
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_store::{Durability, Store};
    ///
    /// let folder = std::env::temp_dir().join(format!("flowloom-example-{}", std::process::id()));
    /// let store = Store::open(&folder, Durability::Normal)?;
    /// assert!(store.list_keys()?.is_empty());
    /// std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(folder: &Path, durability: Durability) -> Result<Arc<Store>, StoreError> {
        Store::open_with(&StoreSettings::for_folder(folder, durability))
    }

    /// Opens the configured database and migrates its schema. Fails with `StoreReadOnly`, `DataReadable`, `StoreNewer` or
    /// `StoreFailed`.
    pub fn open_with(settings: &StoreSettings) -> Result<Arc<Store>, StoreError> {
        let folder = &settings.folder;
        let made = private::create_folder(folder);
        // A server does not need the data folder.
        if settings.keeps_data_in_folder() {
            if !settings.allow_readable {
                private::check_private(folder)?;
            }
            made.map_err(|source| StoreError::NotCreated {
                what: "create the data folder",
                path: folder.clone(),
                source,
            })?;
        }
        let name = worker::new_worker_name();
        let opened = db::open_database(settings, name.clone())?;
        if opened.may_lack_index {
            search::index_missing_blocks(&opened.writer)?;
        }
        let OpenedDatabase { source, liveness, .. } = opened;
        let worker = Arc::new(LocalWorker::new(name, liveness));
        Ok(Arc::new(Store {
            folder: folder.clone(),
            writer: Writer::start_thread(opened.writer, opened.checkpoints, opened.is_quick)?,
            readers: Readers::new(source.clone()),
            worker: worker.clone(),
            runs: opened.keeps_runs_in_memory.then(MemoryRuns::default),
            vectors: search::VectorCache::default(),
            quotas: QuotaChecker { limits: Arc::new(settings.quotas.clone()), worker },
            recovery: settings.recovery.clone(),
            sizes: SizeCache::default(),
            usage: UsageCache::default(),
            text_relay: source.relay_text(),
            mailboxes: Arc::new(Mailboxes::new(source)),
            bundles: HeldBundles::default(),
        }))
    }

    /// Locks the data folder for one server; the lock is held as long as the returned value lives. Fails with
    /// `StoreLocked` if another server holds it. Returns `None` on Postgres, which servers may share.
    pub fn lock_for_server(&self) -> Result<Option<ServerLock>, StoreError> {
        if self.worker.is_shared() { Ok(None) } else { ServerLock::acquire_in(&self.folder).map(Some) }
    }

    /// The data folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Number of commits so far, for benchmarks. Each is one fsync under [`Durability::Full`].
    pub fn commit_count(&self) -> u64 {
        self.writer.commit_count()
    }

    /// Marks this process as shutting down, so that others can reclaim its runs immediately. Fails if the database
    /// cannot be written.
    pub async fn announce_shutdown(&self) -> Result<(), StoreError> {
        self.worker.forget_runs();
        let name = self.worker.name().to_owned();
        let release = move |db: &DbConnection| {
            // A run that waits for a timer must be driven, although it is suspended.
            let sql = "update run set worker = case when finished_at is null then $1 end, failed_claims = 0 where worker = $2";
            db.execute_unchecked(sql, params![NOBODY, &name])
        };
        self.writer.submit_job(Box::new(release)).await?;
        match self.worker.shutdown_job() {
            Some(job) => self.writer.submit_job(job).await,
            None => Ok(()),
        }
    }

    /// Writes existing data again, to check that the database accepts commits. Fails with `StoreUnreachable` or
    /// `StoreLocked` during an outage, and with `StoreFull` if the disk is full.
    pub async fn check_writable(&self) -> Result<(), StoreError> {
        self.writer.submit_job(Box::new(DbConnection::rewrite_unchanged)).await
    }

    /// Notices an outage while nothing is stored, and its end: the log reports either because of a commit. `was_read` states
    /// that the database has just been read.
    pub async fn watch_for_outage(&self, was_read: bool) {
        if !was_read || self.writer.has_outage() {
            // The log reports what is found.
            let _ = self.check_writable().await;
        }
    }

    /// The error of a commit that a server does not answer in time; `None` if the database is no server, and answers or fails.
    pub fn describe_unanswered_commit(&self) -> Option<StoreError> {
        let server = self.writer.server_name()?;
        Some(StoreError::Unanswered { server, is_commit: true })
    }

    /// Name and version of the database, for people. Fails if the database cannot be read.
    pub fn describe_database(&self) -> Result<String, StoreError> {
        self.read_with(DbConnection::describe_database)
    }

    /// Size of the database in bytes. Fails if the database cannot be read.
    pub fn size_bytes(&self) -> Result<u64, StoreError> {
        self.read_long_with(DbConnection::size_bytes)
    }

    /// Limits SQLite's file to a number of pages, to simulate a full disk in tests. Fails on Postgres, which has no
    /// such limit.
    pub fn limit_pages(&self, pages: u32) -> Result<(), StoreError> {
        self.writer.with_connection(|connection| connection.limit_pages(pages))
    }

    pub(crate) fn read_with<T: Send>(
        &self,
        read: impl Fn(&DbConnection) -> Result<T, StoreError> + Send,
    ) -> Result<T, StoreError> {
        self.readers.run_read(read)
    }

    /// Same as [`Store::read_with`] for a read of many rows, which may take minutes.
    pub(crate) fn read_long_with<T: Send>(
        &self,
        read: impl Fn(&DbConnection) -> Result<T, StoreError> + Send,
    ) -> Result<T, StoreError> {
        run_blocking(|| self.readers.run_within(LONG_READ_TIMEOUT, read))
    }

    /// Same as [`Store::read_with`] for a read of the whole journal of a run.
    pub(crate) fn read_journal_with<T: Send>(
        &self,
        read: impl Fn(&DbConnection) -> Result<T, StoreError> + Send,
    ) -> Result<T, StoreError> {
        self.readers.run_within(JOURNAL_READ_TIMEOUT, read)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Some(job) = self.worker.shutdown_job() {
            // The writer finishes its queue before it ends.
            drop(self.writer.submit_job(job));
        }
    }
}
