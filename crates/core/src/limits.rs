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
