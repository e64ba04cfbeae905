//! What the runs of one command have used of its budget.

use flowloom_core::chat::Usage;
use flowloom_core::code::Code;
use flowloom_core::limits::Limits;
use flowloom_core::state::RunState;
use serde::{Deserialize, Serialize};

use super::authored::BUDGET_EXIT_CODE;
use super::budget_limits::is_budget;
use crate::failure::CommandError;

/// The usage of the runs that have ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SpentBudget {
    usage: Usage,
    /// Effects performed, including retries.
    steps: u64,
    time_ms: u64,
}

/// Nothing, which costs nothing.
impl Default for SpentBudget {
    fn default() -> SpentBudget {
        SpentBudget { usage: Usage::none(), steps: 0, time_ms: 0 }
    }
}

impl SpentBudget {
    /// Adds a run that has ended.
    pub(super) fn add_run(&mut self, state: &RunState) {
        self.usage.add(&state.usage);
        self.steps += state.steps().iter().map(|step| u64::from(step.attempts)).sum::<u64>();
        self.time_ms += state.finished_at.unwrap_or(state.created_at).saturating_sub(state.created_at);
    }

    /// The limits of the next run: what is left of those of the command. Fails if nothing is left.
    pub(super) fn remaining_limits(&self, limits: &Limits) -> Result<Limits, CommandError> {
        let left = Limits {
            steps: limits.steps.saturating_sub(self.steps),
            time_ms: limits.time_ms.map(|limit| limit.saturating_sub(self.time_ms)),
            ..limits.without(&self.usage)
        };
        let tokens = self.usage.input_tokens + self.usage.output_tokens;
        let used_up = if left.tokens == Some(0) {
            Some((Code::BudgetTokens, format!("{tokens} of {} tokens are used", limits.tokens.unwrap_or_default())))
        } else if left.micro_usd == Some(0) {
            Some((Code::BudgetMoney, "the amount of money is used".to_owned()))
        } else if left.steps == 0 {
            Some((Code::LimitSteps, format!("{} of {} steps are used", self.steps, limits.steps)))
        } else if left.time_ms == Some(0) {
            Some((Code::LimitTime, format!("{} ms have passed", self.time_ms)))
        } else {
            None
        };
        match used_up {
            Some((code, used)) => Err(as_budget_error(CommandError::new(
                code,
                format!("the budget of the command is used up, so no pipeline was created: {used}; raise --budget"),
            ))),
            None => Ok(left),
        }
    }
}

/// The error with the exit code of a used-up budget, if it is about one.
pub(super) fn as_budget_error(error: CommandError) -> CommandError {
    let exit = if is_budget(error.code) { BUDGET_EXIT_CODE } else { error.exit };
    CommandError { exit, ..error }
}
