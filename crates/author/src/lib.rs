//! The planner: from a goal in plain language to a pipeline that passes its check.
//!
//! [`clarify`] asks questions until the goal is clear. [`run_planner`] then runs the stages decompose, search, create and
//! wire. Each stage is a function of its arguments; everything it does outside goes through [`PlannerEnv`]: no clock, no
//! randomness, no storage. [`dry_run`] implements trials and dry runs. Saving and running the result is up to the
//! caller.
#![warn(missing_docs)]

mod answer;
mod block;
pub mod candidates;
pub mod choose;
pub mod clarify;
pub mod create;
pub mod decompose;
pub mod dry_run;
pub mod env;
pub mod evaluation;
pub mod event;
mod export;
mod fence;
pub mod limits;
mod model;
mod object;
pub mod planner;
mod required;
mod sample;
pub mod search;
mod trial;
pub mod wire;
mod wiring;

pub use dry_run::{DryRun, DryRunner};
pub use env::{ModelQuestion, PlannerEnv, PlannerSettings};
pub use event::PlannerEvent;
pub use export::{EXPORT_FORMATS, ExportedDefinition, export_pipeline};
pub use limits::{MAX_REPAIRS, MAX_TRIAL_TIMEOUTS};
pub use model::{Candidate, FoundBlocks, ModelAnswer, TrialOutcome};
pub use planner::{Draft, Stage, run_planner};
pub use required::RequiredBlock;
