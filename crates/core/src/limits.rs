//! Every bound on a run, in one place. Each has its own error code and test.

use serde::{Deserialize, Serialize};

/// How much a run may do. `None` means no bound; everything else has one by default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Effects performed, retries included.
    pub steps: u64,
    /// Iterations of one loop, whatever the loop itself allows.
    pub iterations: u64,
    /// Nesting of composites.
    pub nesting: u32,
    /// Workflows started within workflows.
    pub subflow_depth: u32,
    /// Effects in flight at the same time; more wait for their turn.
    pub parallel: u32,
    /// Time from start to end, in milliseconds, waiting for people included.
    pub time_ms: Option<u64>,
    /// Bytes of one step's output.
    pub output_bytes: u64,
    /// Bytes of one source file.
    pub source_bytes: u64,
    /// Tokens, prompt and answer, of all model calls.
    pub tokens: Option<u64>,
    /// Money for all model calls, in millionths of a US dollar.
    pub micro_usd: Option<u64>,
}

impl Limits {
    /// These bounds, and those of a definition where they are narrower.
    pub fn within(&self, plan: &Limits) -> Limits {
        let least = |ours: Option<u64>, theirs: Option<u64>| match (ours, theirs) {
            (Some(ours), Some(theirs)) => Some(ours.min(theirs)),
            (ours, theirs) => ours.or(theirs),
        };
        Limits {
            steps: self.steps.min(plan.steps),
            iterations: self.iterations.min(plan.iterations),
            nesting: self.nesting.min(plan.nesting),
            subflow_depth: self.subflow_depth.min(plan.subflow_depth),
            parallel: self.parallel.min(plan.parallel),
            time_ms: least(self.time_ms, plan.time_ms),
            output_bytes: self.output_bytes.min(plan.output_bytes),
            source_bytes: self.source_bytes,
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
            parallel: 10_000,
            time_ms: None,
            output_bytes: 16 << 20,
            source_bytes: 4 << 20,
            tokens: None,
            micro_usd: None,
        }
    }
}
