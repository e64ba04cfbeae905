//! A fair semaphore that limits the number of effects in flight. Waiters proceed in the order of their arrival.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use parking_lot::{Mutex, MutexGuard};

/// The semaphore of one run.
#[derive(Default)]
pub(crate) struct Semaphore {
    state: Mutex<SemaphoreState>,
}

#[derive(Default)]
struct SemaphoreState {
    /// Permits that are held and not lent; negative for a moment if several child effects of one holder wait.
    held: i64,
    tickets: u64,
    waiting: BTreeMap<u64, Waker>,
}

impl Semaphore {
    fn lock_state(&self) -> MutexGuard<'_, SemaphoreState> {
        self.state.lock()
    }

    /// Acquires a permit as soon as fewer than `limit` are held.
    pub(super) fn acquire_permit(&self, limit: u32) -> Acquire<'_> {
        Acquire { semaphore: self, limit: limit.max(1), ticket: None }
    }

    /// Lets another effect have a permit until the returned value is dropped.
    pub(super) fn lend_permit(&self) -> LentPermit<'_> {
        let mut state = self.lock_state();
        state.held -= 1;
        state.wake_next();
        LentPermit { semaphore: self }
    }
}

impl SemaphoreState {
    /// Wakes the next waiter.
    fn wake_next(&mut self) {
        if let Some((_, waker)) = self.waiting.pop_first() {
            waker.wake();
        }
    }
}

/// A pending acquisition. If it is dropped after it was woken, it wakes the next waiter.
pub(super) struct Acquire<'a> {
    semaphore: &'a Semaphore,
    limit: u32,
    ticket: Option<u64>,
}

impl<'a> Future for Acquire<'a> {
    type Output = Permit<'a>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Permit<'a>> {
        let mut state = self.semaphore.lock_state();
        if state.held < i64::from(self.limit) {
            state.held += 1;
            if let Some(ticket) = self.ticket {
                state.waiting.remove(&ticket);
            }
            drop(state);
            self.ticket = None;
            return Poll::Ready(Permit { semaphore: self.semaphore });
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

impl Drop for Acquire<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let mut state = self.semaphore.lock_state();
            // Neither waiting nor admitted: it was woken, and the wake-up must not be lost.
            if state.waiting.remove(&ticket).is_none() {
                state.wake_next();
            }
        }
    }
}

/// A permit, held until it is dropped.
pub(super) struct Permit<'a> {
    semaphore: &'a Semaphore,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut state = self.semaphore.lock_state();
        state.held -= 1;
        state.wake_next();
    }
}

/// A permit whose holder waits for a person and lets another effect have it meanwhile. Afterwards the holder continues
/// immediately, even if that exceeds the limit for a moment.
pub(super) struct LentPermit<'a> {
    semaphore: &'a Semaphore,
}

impl Drop for LentPermit<'_> {
    fn drop(&mut self) {
        self.semaphore.lock_state().held += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll<'a>(entering: &mut Acquire<'a>) -> Poll<Permit<'a>> {
        Pin::new(entering).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_turn_that_is_not_taken_goes_to_the_next() {
        let gate = Semaphore::default();
        let Poll::Ready(first) = poll(&mut gate.acquire_permit(1)) else { panic!("the gate is open") };
        let (mut second, mut third) = (gate.acquire_permit(1), gate.acquire_permit(1));
        assert!(poll(&mut second).is_pending() && poll(&mut third).is_pending());
        drop(first);
        assert_eq!(gate.lock_state().waiting.len(), 1, "only the second is called");
        drop(second);
        assert!(gate.lock_state().waiting.is_empty(), "the third is called in its place");
        assert!(poll(&mut third).is_ready());
    }
}
