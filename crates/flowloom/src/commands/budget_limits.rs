//! The limits of a run that a larger budget raises.

use flowloom_core::code::Code;
use flowloom_core::state::RunState;

use crate::hint;

/// The errors of limits, each with the part of a budget that sets it.
const BUDGET_PARTS: [(Code, &str); 4] = [
    (Code::BudgetTokens, "tokens=…"),
    (Code::BudgetMoney, "usd=…"),
    (Code::LimitSteps, "steps=…"),
    (Code::LimitTime, "time=…"),
];

/// Whether an error is a limit that a budget sets.
pub(super) fn is_budget(code: Code) -> bool {
    find_budget_part(code).is_some()
}

/// The part of a budget that sets the limit of an error.
fn find_budget_part(code: Code) -> Option<&'static str> {
    BUDGET_PARTS.iter().find(|(limit, _)| *limit == code).map(|(_, part)| *part)
}

/// How a run that reached a limit continues; `None` for other runs. The limits of a run never change, so that a retry reaches
/// the same one. `run` is its id, or `last`.
pub(super) fn describe_larger_budget(run: &str, state: &RunState) -> Option<String> {
    let part = find_budget_part(state.error.as_ref()?.code)?;
    let fork = hint::command_line(&format!("fork {run} --budget {part}"));
    Some(format!("a larger limit continues from the finished steps: {fork}"))
}
