//! Limits of the planner.

/// How often an unusable answer is sent back to the model, each time with all errors so far.
pub const MAX_REPAIRS: usize = 3;

/// How many trials of one authoring may run into the limits of a block. After that no block is written any more.
pub const MAX_TRIAL_TIMEOUTS: usize = 4;
