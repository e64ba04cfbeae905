//! The limits of a run that a budget sets.

use flowloom_core::code::Code;
use flowloom_core::state::RunState;
use flowloom_core::status::Status;

use crate::hint;

/// The errors of runs that reached a limit, each with the name of the limit in a budget.
const BUDGET_LIMITS: [(Code, &str); 4] = [
    (Code::BudgetTokens, "tokens"),
    (Code::BudgetMoney, "usd"),
    (Code::LimitSteps, "steps"),
    (Code::LimitTime, "time"),
];

/// Whether an error is a limit that a budget sets.
pub(super) fn is_budget(code: Code) -> bool {
    find_budget_limit(code).is_some()
}

fn find_budget_limit(code: Code) -> Option<&'static str> {
    BUDGET_LIMITS.iter().find(|(limit, _)| *limit == code).map(|(_, name)| *name)
}

/// How a run that used up its budget continues; `None` for other runs. A retry would have the same limit again. `run` is its id,
/// or `last`.
pub(super) fn describe_larger_budget(run: &str, state: &RunState) -> Option<String> {
    let is_used_up = matches!(state.status, Status::BudgetExceeded | Status::TimedOut);
    let error = state.error.as_ref().filter(|_| is_used_up)?;
    let fork = format!("fork {run} --budget {}=…", find_budget_limit(error.code)?);
    Some(format!("a larger limit continues from the finished steps: {}", hint::command_line(&fork)))
}
