//! All limits of a run. Each has an error code and a test of its own.

use serde::{Deserialize, Serialize};

use crate::chat::Usage;
#[cfg(doc)]
use crate::value::Value;

/// The limits of a run. `None` means no limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Effects performed, including retries.
    pub steps: u64,
    /// Iterations of a single loop, in addition to the loop's own limit.
    pub iterations: u64,
    /// Nesting depth of composites.
    pub nesting: u32,
    /// Nesting depth of workflows started by workflows.
    pub subflow_depth: u32,
    /// Child runs of an outermost run, with theirs.
    pub child_runs: u64,
    /// Concurrent effects; further ones wait.
    pub parallel: u32,
    /// Time from start to end in milliseconds, including time spent waiting for people.
    pub time_ms: Option<u64>,
    /// Size of one step's output, in bytes.
    pub output_bytes: u64,
    /// Memory that a run takes for what it keeps until its end, in bytes: outputs, values of expressions, texts, variables.
    pub total_output_bytes: u64,
    /// Size of one source file, in bytes.
    pub source_bytes: u64,
    /// Size of a user's whole memory, in bytes. A write beyond it fails; stored values stay usable.
    pub memory_bytes: u64,
    /// Tokens of all model calls, prompts and answers.
    pub tokens: Option<u64>,
    /// Cost of all model calls, in millionths of a US dollar.
    pub micro_usd: Option<u64>,
}

impl Limits {
    /// The remaining limits after this usage.
    pub fn without(&self, used: &Usage) -> Limits {
        let left = |limit: Option<u64>, used: u64| limit.map(|limit| limit.saturating_sub(used));
        Limits {
            tokens: left(self.tokens, used.input_tokens + used.output_tokens),
            micro_usd: left(self.micro_usd, used.micro_usd.unwrap_or_default()),
            ..self.clone()
        }
    }

    /// No limits: those of a definition that sets none.
    pub fn unlimited() -> Limits {
        Limits {
            steps: u64::MAX,
            iterations: u64::MAX,
            nesting: u32::MAX,
            subflow_depth: u32::MAX,
            child_runs: u64::MAX,
            parallel: u32::MAX,
            time_ms: None,
            output_bytes: u64::MAX,
            total_output_bytes: u64::MAX,
            source_bytes: u64::MAX,
            memory_bytes: u64::MAX,
            tokens: None,
            micro_usd: None,
        }
    }

    /// These limits, or those of `plan` where they are stricter.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_core::limits::Limits;
    ///
    /// let configured = Limits { steps: 500, tokens: None, ..Limits::default() };
    /// let of_plan = Limits { steps: 1_000, tokens: Some(2_000), ..Limits::unlimited() };
    /// let limits = configured.narrow_to(&of_plan);
    /// assert_eq!((limits.steps, limits.tokens), (500, Some(2_000)));
    /// ```
    pub fn narrow_to(&self, plan: &Limits) -> Limits {
        let least = |ours: Option<u64>, theirs: Option<u64>| match (ours, theirs) {
            (Some(ours), Some(theirs)) => Some(ours.min(theirs)),
            (ours, theirs) => ours.or(theirs),
        };
        Limits {
            steps: self.steps.min(plan.steps),
            iterations: self.iterations.min(plan.iterations),
            nesting: self.nesting.min(plan.nesting),
            subflow_depth: self.subflow_depth.min(plan.subflow_depth),
            child_runs: self.child_runs.min(plan.child_runs),
            parallel: self.parallel.min(plan.parallel),
            time_ms: least(self.time_ms, plan.time_ms),
            output_bytes: self.output_bytes.min(plan.output_bytes),
            total_output_bytes: self.total_output_bytes.min(plan.total_output_bytes),
            source_bytes: self.source_bytes.min(plan.source_bytes),
            memory_bytes: self.memory_bytes.min(plan.memory_bytes),
            tokens: least(self.tokens, plan.tokens),
            micro_usd: least(self.micro_usd, plan.micro_usd),
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            steps: 100_000,
            iterations: 100_000,
            nesting: 64,
            subflow_depth: 8,
            child_runs: 10_000,
            parallel: 10_000,
            time_ms: None,
            output_bytes: 16 << 20,
            total_output_bytes: 1 << 30,
            source_bytes: 4 << 20,
            memory_bytes: 8 << 20,
            tokens: None,
            micro_usd: None,
        }
    }
}
