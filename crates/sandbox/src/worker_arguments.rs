//! The arguments with which the program starts itself as a worker.

/// Argument that makes the program a worker for expressions.
pub const SCRIPT_WORKER: &str = "__worker-js";
/// Argument that makes the program lock itself down and start a Python interpreter.
pub const PYTHON_WORKER: &str = "__worker-python";
