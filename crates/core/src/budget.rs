//! Token and cost budgets: reserved before a call, settled after it.
//!
//! Invariant: settled + reserved never exceeds the budget, however many calls are in flight.

use crate::limits::Limits;

/// The amounts spent and reserved in a run.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    tokens: Account,
    micro_usd: Account,
}

#[derive(Clone, Debug, Default)]
struct Account {
    settled: u64,
    reserved: u64,
}

/// An amount of tokens and money: the upper bound of a call, or its actual use.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Amount {
    /// Tokens.
    pub tokens: u64,
    /// Millionths of a US dollar.
    pub micro_usd: u64,
}

/// The result of [`Ledger::reserve`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reservation {
    /// Reserved; the call may start.
    Granted,
    /// Calls in flight hold the rest of the budget; try again when one settles.
    Later,
    /// The call exceeds the budget even without other calls in flight.
    Exceeded,
}

impl Ledger {
    /// Reserves `claim` if it fits into the budgets of `limits`.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_core::budget::{Amount, Ledger, Reservation};
    /// use flowloom_core::limits::Limits;
    ///
    /// let limits = Limits { tokens: Some(1_000), ..Limits::default() };
    /// let claim = Amount { tokens: 700, micro_usd: 0 };
    /// let mut ledger = Ledger::default();
    /// assert_eq!(ledger.reserve(&limits, claim), Reservation::Granted);
    /// // The first call may use less than it reserved, so the second one waits.
    /// assert_eq!(ledger.reserve(&limits, claim), Reservation::Later);
    /// ledger.settle(claim, Amount { tokens: 200, micro_usd: 0 });
    /// assert_eq!(ledger.reserve(&limits, claim), Reservation::Granted);
    /// ```
    pub fn reserve(&mut self, limits: &Limits, claim: Amount) -> Reservation {
        let tokens = self.tokens.check_budget(limits.tokens, claim.tokens);
        let money = self.micro_usd.check_budget(limits.micro_usd, claim.micro_usd);
        match (tokens, money) {
            (Reservation::Granted, Reservation::Granted) => {
                self.tokens.reserved += claim.tokens;
                self.micro_usd.reserved += claim.micro_usd;
                Reservation::Granted
            }
            (Reservation::Exceeded, _) | (_, Reservation::Exceeded) => Reservation::Exceeded,
            (Reservation::Later, _) | (_, Reservation::Later) => Reservation::Later,
        }
    }

    /// Releases `claim` and adds the actual use.
    pub fn settle(&mut self, claim: Amount, used: Amount) {
        self.tokens.settle(claim.tokens, used.tokens);
        self.micro_usd.settle(claim.micro_usd, used.micro_usd);
    }

    /// Tokens that are neither spent nor reserved; `None` without a budget.
    pub fn remaining_tokens(&self, limits: &Limits) -> Option<u64> {
        limits.tokens.map(|budget| budget.saturating_sub(self.tokens.settled + self.tokens.reserved))
    }

    /// The amounts spent so far.
    pub fn settled_amount(&self) -> Amount {
        Amount { tokens: self.tokens.settled, micro_usd: self.micro_usd.settled }
    }
}

impl Account {
    fn check_budget(&self, budget: Option<u64>, claim: u64) -> Reservation {
        match budget {
            None => Reservation::Granted,
            Some(budget) if self.settled.saturating_add(claim) > budget => Reservation::Exceeded,
            Some(budget) if (self.settled + self.reserved).saturating_add(claim) > budget => Reservation::Later,
            Some(_) => Reservation::Granted,
        }
    }

    fn settle(&mut self, reserved: u64, used: u64) {
        self.reserved = self.reserved.saturating_sub(reserved);
        self.settled = self.settled.saturating_add(used);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parallel_calls_wait_for_each_other() {
        let limits = Limits { tokens: Some(100), ..Limits::default() };
        let mut ledger = Ledger::default();
        let claim = Amount { tokens: 60, micro_usd: 0 };
        assert_eq!(ledger.reserve(&limits, claim), Reservation::Granted);
        assert_eq!(ledger.reserve(&limits, claim), Reservation::Later);
        ledger.settle(claim, Amount { tokens: 30, micro_usd: 0 });
        assert_eq!(ledger.reserve(&limits, claim), Reservation::Granted);
        assert_eq!(ledger.reserve(&limits, Amount { tokens: 71, micro_usd: 0 }), Reservation::Exceeded);
    }
}
