//! AgentFlow: blocks, pipelines, their executions, notifications and memory (docs/formats/pipeline.md).

pub(crate) mod author;
pub(crate) mod automate;
pub(crate) mod blocks;
pub(crate) mod doer;
pub(crate) mod executions;
pub(crate) mod memory;
pub(crate) mod notifications;
pub(crate) mod pipelines;

use serde::Deserialize;
use utoipa::IntoParams;

/// Entries of a list that does not say how many, and at most.
const USUAL: u32 = 50;
const MOST: u32 = 500;

/// How many entries a list has.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Limit {
    /// Entries at most: 1 to 500, 50 if it is not said.
    #[serde(default)]
    limit: Option<u32>,
}

impl Limit {
    fn count(&self) -> u32 {
        self.limit.unwrap_or(USUAL).clamp(1, MOST)
    }
}

/// A time as AgentFlow writes it.
fn time(ms: u64) -> String {
    jiff::Timestamp::from_millisecond(ms as i64).map(|time| time.to_string()).unwrap_or_default()
}
