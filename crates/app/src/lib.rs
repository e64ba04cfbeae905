//! The use cases of Flowloom, without a terminal and without sockets: configuration, definitions and their catalog, runs,
//! tools, blocks, authoring, schedules, hooks and keys.
//!
//! The command line and the server call the same functions with the same types. Every error is an
//! [`AppError`](error::AppError); nothing here knows flags, exit codes, headers or HTTP statuses.
#![warn(missing_docs)]

pub mod authoring;
pub mod blocks;
mod bounded_cache;
pub mod config;
pub mod cron_times;
mod daily_reservations;
pub mod definitions;
pub mod diff;
pub mod engine_factory;
pub mod engines;
pub mod error;
pub mod error_pages;
pub mod estimate;
pub mod folders;
pub mod function_settings;
pub mod hooks;
pub mod keys;
pub mod listing;
pub mod model_choice;
pub mod models;
pub mod project_files;
pub mod quotas;
pub mod redaction;
pub mod restate;
mod run_models;
pub mod runs;
pub mod schedule_error;
pub mod scheduler;
pub mod schedules;
pub mod secrets;
pub mod telemetry;
pub mod times;
pub mod tools;
pub mod type_errors;
pub mod typical_case;
pub mod used_models;
mod user_files;
pub mod user_names;
pub mod wiring;
pub mod workflow_tests;
