//! Stores runs, definitions and users' data on SQLite, or on a Postgres database that several processes share.
//!
//! One thread owns the write connection. All jobs queued during a commit form the next commit. [`Durability`]
//! determines what an acknowledged write survives.
#![warn(missing_docs)]

mod abandoned;
mod audit;
mod audit_entry;
mod backup;
mod batch;
mod catalog;
mod check;
mod checkpoints;
mod checksum;
mod commands;
mod commit_desk;
mod commit_thread;
mod corruption;
mod damage;
mod db;
mod definition_condition;
mod definitions;
mod durable_rename;
mod error;
mod event_effects;
mod event_row;
mod held_bundles;
mod hooks;
mod idempotency;
mod journal;
mod keyed_command;
mod keys;
mod lease_terms;
mod memory_runs;
mod migrate_checksums;
mod model_usage;
mod notifications;
mod open_questions;
mod ownership;
mod private;
mod prune;
mod question_expiry;
mod quota;
mod quota_check;
mod readers;
mod rows;
mod run_inputs;
mod run_row;
mod run_statistics;
mod run_tree;
mod run_usage;
mod schedules;
mod search;
mod sessions;
mod settings;
mod size_cache;
mod store;
mod usage;
mod usage_cache;
mod users;
mod worker;
mod writer;

/// Parts of the store that need no database. The simulation of several processes (`tests/simulation`) uses them.
pub mod parts {
    pub use crate::commands::{CausedCommand, Mailboxes};
    pub use crate::journal::memory_writes_of;
    pub use crate::lease_terms::{LeaseTerms, Renewal};
    pub use crate::memory_runs::MemoryRuns;
}

pub use abandoned::{AbandonedRun, LeftRuns, MAX_WORKER_DEATHS};
pub use audit::{Actor, AuditFilter, AuditRow};
pub use backup::{RestoreOptions, RestoredBackup, restore_backup};
pub use catalog::PersonalWrites;
pub use check::CheckedRows;
pub use commands::PostedCommand;
pub use damage::Damage;
pub use db::postgres::Database;
pub use db::sqlite::locks::ServerLock;
pub use definition_condition::{ContentTags, DefinitionCondition, content_tag};
pub use definitions::{
    ChangeResult, ChangedDefinition, DefinitionChange, DefinitionKey, DefinitionKind, DefinitionRow, DeletedDefinition,
    NewDefinition, Origin, VersionRow,
};
pub use error::{BackupError, Corruption, StoreError};
pub use hooks::HookRow;
pub use idempotency::{IdempotentStart, StartKey};
pub use keyed_command::KeyedCommand;
pub use keys::{KeyRotation, KeyRow, OldSecret};
pub use model_usage::ModelUsage;
pub use notifications::{NewNotification, NotificationRow};
pub use open_questions::OpenQuestions;
pub use private::check_private;
pub use prune::{MAX_DELETED_RUNS, PruneFilter};
pub use question_expiry::{QuestionExpiry, WaitingQuestion};
pub use quota::{
    DailyUsage, QUOTA_TABLE, Quota, QuotaExceeded, QuotaInfo, QuotaLimits, QuotaWindow, Quotas, START_QUOTAS,
};
pub use run_row::{RunFilter, RunRow};
pub use run_statistics::{IntervalDurations, RunCount, RunStatistics, WorkflowStatistics};
pub use schedules::{MAX_LISTED_INPUTS_BYTES, ScheduleKey, ScheduleRow};
pub use search::{BlockQuery, FoundBlock, UnembeddedText};
pub use settings::{DATABASE_FILE, DEFAULT_LEASE, Durability, RecoveryScope, StoreSettings};
pub use store::Store;
pub use users::{BUILTIN_USER, SHARED_USER};
