//! A fair semaphore that limits the number of effects in flight. Waiters proceed in the order of their arrival.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The semaphore of one run.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    inside: u32,
    tickets: u64,
    waiting: BTreeMap<u64, Waker>,
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acquires a permit as soon as fewer than `limit` are held.
    pub(super) fn enter(&self, limit: u32) -> Entering<'_> {
        Entering { gate: self, limit: limit.max(1), ticket: None }
    }
}

impl State {
    /// Wakes the next waiter.
    fn call(&mut self) {
        if let Some((_, waker)) = self.waiting.pop_first() {
            waker.wake();
        }
    }
}

/// A pending acquisition. If it is dropped after it was woken, it wakes the next waiter.
pub(super) struct Entering<'a> {
    gate: &'a Gate,
    limit: u32,
    ticket: Option<u64>,
}

impl<'a> Future for Entering<'a> {
    type Output = Permit<'a>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Permit<'a>> {
        let mut state = self.gate.state();
        if state.inside < self.limit {
            state.inside += 1;
            if let Some(ticket) = self.ticket {
                state.waiting.remove(&ticket);
            }
            drop(state);
            self.ticket = None;
            return Poll::Ready(Permit { gate: self.gate });
        }
        let ticket = self.ticket.unwrap_or_else(|| {
            state.tickets += 1;
            state.tickets
        });
        state.waiting.insert(ticket, context.waker().clone());
        drop(state);
        self.ticket = Some(ticket);
        Poll::Pending
    }
}

impl Drop for Entering<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let mut state = self.gate.state();
            // Neither waiting nor admitted: it was woken, and the wake-up must not be lost.
            if state.waiting.remove(&ticket).is_none() {
                state.call();
            }
        }
    }
}

/// A permit, held until it is dropped.
pub(super) struct Permit<'a> {
    gate: &'a Gate,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.state();
        state.inside -= 1;
        state.call();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll<'a>(entering: &mut Entering<'a>) -> Poll<Permit<'a>> {
        Pin::new(entering).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_turn_that_is_not_taken_goes_to_the_next() {
        let gate = Gate::default();
        let Poll::Ready(first) = poll(&mut gate.enter(1)) else { panic!("the gate is open") };
        let (mut second, mut third) = (gate.enter(1), gate.enter(1));
        assert!(poll(&mut second).is_pending() && poll(&mut third).is_pending());
        drop(first);
        assert_eq!(gate.state().waiting.len(), 1, "only the second is called");
        drop(second);
        assert!(gate.state().waiting.is_empty(), "the third is called in its place");
        assert!(poll(&mut third).is_ready());
    }
}
