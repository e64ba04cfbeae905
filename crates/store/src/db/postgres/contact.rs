//! Since when this process has reached the database without a break. After an outage the leases of all processes have
//! expired, although the processes live.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The contact of this process with a database.
#[derive(Default)]
pub(crate) struct DatabaseContact {
    state: Mutex<ContactState>,
}

#[derive(Default)]
struct ContactState {
    is_lost: bool,
    /// When the database was reached again; `None` if it was never lost.
    restored_at: Option<Instant>,
}

impl DatabaseContact {
    /// Notes that the database could not be reached, or that a session with it was lost.
    pub(crate) fn note_lost(&self) {
        self.state.lock().is_lost = true;
    }

    /// Notes that a session was opened.
    pub(crate) fn note_reached(&self) {
        let mut state = self.state.lock();
        if std::mem::take(&mut state.is_lost) {
            state.restored_at = Some(Instant::now());
        }
    }

    /// Whether the database was reached for the whole of the last `duration`, as far as this process knows.
    pub(crate) fn is_steady_for(&self, duration: Duration) -> bool {
        let state = self.state.lock();
        !state.is_lost && state.restored_at.is_none_or(|at| at.elapsed() >= duration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contact_is_steady_again_a_while_after_an_outage() {
        let contact = DatabaseContact::default();
        contact.note_reached();
        assert!(contact.is_steady_for(Duration::MAX), "it was never lost");
        contact.note_lost();
        assert!(!contact.is_steady_for(Duration::ZERO), "it is lost");
        contact.note_reached();
        assert!(!contact.is_steady_for(Duration::MAX) && contact.is_steady_for(Duration::ZERO));
    }
}
