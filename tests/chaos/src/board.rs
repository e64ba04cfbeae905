//! Where clients learn which servers are alive.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

/// The addresses of the living servers.
#[derive(Default)]
pub(crate) struct Board {
    state: Mutex<BoardState>,
    changed: Condvar,
}

#[derive(Default)]
struct BoardState {
    addresses: Vec<SocketAddr>,
    /// Number of changes.
    version: u64,
    /// The end of the wait.
    deadline: Option<Instant>,
    is_stopped: bool,
}

/// A server at a time.
#[derive(Clone, Copy)]
pub(crate) struct ServerPlace {
    pub(crate) address: SocketAddr,
    version: u64,
}

impl Board {
    fn lock_state(&self) -> MutexGuard<'_, BoardState> {
        self.state.lock()
    }

    pub(crate) fn add(&self, address: SocketAddr) {
        self.change(|state| state.addresses.push(address));
    }

    pub(crate) fn remove(&self, address: SocketAddr) {
        self.change(|state| state.addresses.retain(|other| *other != address));
    }

    /// From now on runs must make progress: the wait ends at `deadline`.
    pub(crate) fn set_deadline(&self, deadline: Instant) {
        self.change(|state| state.deadline = Some(deadline));
    }

    /// Lets every client stop.
    pub(crate) fn stop(&self) {
        self.change(|state| state.is_stopped = true);
    }

    fn change(&self, change: impl FnOnce(&mut BoardState)) {
        let mut state = self.lock_state();
        change(&mut state);
        state.version += 1;
        self.changed.notify_all();
    }

    /// A living server: the one at `choice`, modulo their number. Waits until there is one; `None` if it is too late.
    pub(crate) fn wait_for_server(&self, choice: usize) -> Option<ServerPlace> {
        let mut state = self.lock_state();
        loop {
            let late = state.is_stopped || state.deadline.is_some_and(|deadline| Instant::now() >= deadline);
            match state.addresses.len() {
                _ if late => return None,
                0 => drop(self.changed.wait_for(&mut state, Duration::from_millis(200))),
                count => return Some(ServerPlace { address: state.addresses[choice % count], version: state.version }),
            }
        }
    }

    /// The address of a living server other than that at `place`; the same one if there is no other.
    pub(crate) fn find_other(&self, place: ServerPlace) -> SocketAddr {
        let state = self.lock_state();
        let other = state.addresses.iter().find(|address| **address != place.address);
        *other.unwrap_or(&place.address)
    }

    /// Waits until the servers have changed since `place` was read, at most for `limit`.
    pub(crate) fn wait_for_change(&self, place: ServerPlace, limit: Duration) {
        let mut state = self.lock_state();
        let same = |state: &mut BoardState| state.version == place.version && !state.is_stopped;
        self.changed.wait_while_for(&mut state, same, limit);
    }
}
