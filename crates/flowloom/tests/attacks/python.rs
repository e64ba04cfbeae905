//! Blocks of Python around single expressions.

/// The beginning of a block: the real modules, which no filter of names hides from Python.
pub(crate) const PYTHON_PRELUDE: &str = include_str!("../../../../tests/attacks/prelude.py");

/// A block that evaluates an expression and returns the type of the exception, or the value.
pub(crate) fn attempt_block(expression: &str) -> String {
    let prelude: String = PYTHON_PRELUDE.lines().map(|line| format!("    {line}\n")).collect();
    format!("async def execute(inputs, context):\n{prelude}    return {{'out': tried(lambda: {expression})}}\n")
}
