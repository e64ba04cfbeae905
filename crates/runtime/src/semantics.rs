//! The version of what the interpreter does with a plan.

/// Version of the interpreter's semantics. Runs created under another version are rejected.
pub const ENGINE_SEMANTICS: u32 = 1;
