//! The budget of a run: a model call reserves the worst case before it and settles the actual use after it.

use std::future::poll_fn;
use std::task::{Poll, Waker};

use flowloom_core::budget::{Amount, Ledger, Reservation};
use flowloom_core::chat::Usage;
use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::limits::Limits;
use parking_lot::{Mutex, MutexGuard};

/// The budget of a run, shared by its branches.
pub(crate) struct Budget {
    state: Mutex<BudgetState>,
}

struct BudgetState {
    ledger: Ledger,
    /// Calls that wait for a reservation.
    waiting: Vec<Waker>,
}

impl Budget {
    pub(crate) fn new(ledger: Ledger) -> Budget {
        Budget { state: Mutex::new(BudgetState { ledger, waiting: Vec::new() }) }
    }

    fn lock_state(&self) -> MutexGuard<'_, BudgetState> {
        self.state.lock()
    }

    /// Adds the cost of a call that needed no reservation.
    pub(super) fn add_usage(&self, usage: Option<&Usage>) {
        if let Some(usage) = usage {
            self.lock_state().ledger.settle(Amount::default(), usage_amount(usage));
        }
    }

    /// The limits, less the amounts spent.
    pub(super) fn remaining_limits(&self, limits: &Limits) -> Limits {
        let spent = self.lock_state().ledger.settled_amount();
        let rest = |budget: Option<u64>, spent: u64| budget.map(|budget| budget.saturating_sub(spent));
        Limits {
            tokens: rest(limits.tokens, spent.tokens),
            micro_usd: rest(limits.micro_usd, spent.micro_usd),
            ..limits.clone()
        }
    }

    pub(super) fn remaining_tokens(&self, limits: &Limits) -> Option<u64> {
        self.lock_state().ledger.remaining_tokens(limits)
    }

    /// Reserves `claim`; waits if only calls in flight prevent it.
    pub(super) async fn reserve_amount(
        &self,
        limits: &Limits,
        claim: Amount,
    ) -> Result<BudgetReservation<'_>, StepFailure> {
        poll_fn(|context| {
            let mut state = self.lock_state();
            match state.ledger.reserve(limits, claim) {
                Reservation::Granted => {
                    Poll::Ready(Ok(BudgetReservation { budget: self, claim, used: Amount::default() }))
                }
                Reservation::Later => {
                    state.waiting.push(context.waker().clone());
                    Poll::Pending
                }
                Reservation::Exceeded => Poll::Ready(Err(budget_error(&state.ledger, limits, claim))),
            }
        })
        .await
    }
}

fn budget_error(ledger: &Ledger, limits: &Limits, claim: Amount) -> StepFailure {
    let spent = ledger.settled_amount();
    match limits.tokens {
        Some(budget) if spent.tokens + claim.tokens > budget => {
            let message =
                format!("the next model call may use {} tokens; {} of {budget} are used", claim.tokens, spent.tokens);
            StepFailure::new(Code::BudgetTokens, message)
        }
        _ => {
            let message = format!(
                "the next model call may cost {} millionths of a dollar; {} of {} are spent",
                claim.micro_usd,
                spent.micro_usd,
                limits.micro_usd.unwrap_or_default()
            );
            StepFailure::new(Code::BudgetMoney, message)
        }
    }
}

fn usage_amount(usage: &Usage) -> Amount {
    Amount { tokens: usage.input_tokens + usage.output_tokens, micro_usd: usage.micro_usd.unwrap_or_default() }
}

/// A reservation. It is released on drop, so a failed or abandoned call frees its amount.
pub(super) struct BudgetReservation<'a> {
    budget: &'a Budget,
    claim: Amount,
    used: Amount,
}

impl BudgetReservation<'_> {
    /// Replaces the reservation by the actual use.
    pub(super) fn settle_usage(mut self, usage: Option<&Usage>) {
        self.used = usage.map(usage_amount).unwrap_or_default();
    }
}

impl Drop for BudgetReservation<'_> {
    fn drop(&mut self) {
        let mut state = self.budget.lock_state();
        state.ledger.settle(self.claim, self.used);
        state.waiting.drain(..).for_each(Waker::wake);
    }
}
