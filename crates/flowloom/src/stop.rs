//! Stopping the program with Ctrl-C or SIGTERM. The first signal leaves the driven run interrupted, so that it can be
//! resumed, or cancels the turn of a chat; a second one, or one while no run is driven, ends the program immediately.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use crate::terminal::echo::show_typed_controls;

/// Exit code of a program that was stopped.
pub(crate) const EXIT_CODE: u8 = 130;

static WATCHER: Once = Once::new();
static DRIVEN_RUNS: AtomicUsize = AtomicUsize::new(0);
static IS_REQUESTED: AtomicBool = AtomicBool::new(false);
static IS_TERMINATED: AtomicBool = AtomicBool::new(false);
static REQUESTED: Notify = Notify::const_new();

/// While it lives, the first signal does not end the program.
pub(crate) struct StopGuard(());

/// How the program is asked to stop.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopSignal {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

/// Defers the end of the program while a run is driven.
pub(crate) fn defer_stop() -> StopGuard {
    WATCHER.call_once(|| {
        tokio::spawn(watch_signals());
    });
    DRIVEN_RUNS.fetch_add(1, Ordering::SeqCst);
    StopGuard(())
}

impl StopGuard {
    /// Completes when the program is asked to stop.
    pub(crate) async fn wait_for_request(&self) -> StopSignal {
        let requested = REQUESTED.notified();
        match requested_signal() {
            Some(signal) => signal,
            None => {
                requested.await;
                requested_signal().unwrap_or(StopSignal::Interrupt)
            }
        }
    }

    /// From now on a signal ends the program immediately. Returns the one that arrived before, if there is one.
    pub(crate) fn end_deferral(self) -> Option<StopSignal> {
        drop(self);
        requested_signal()
    }
}

/// The request was met, and the program continues: the next signal counts as a first one.
pub(crate) fn complete_request() {
    IS_REQUESTED.store(false, Ordering::SeqCst);
}

/// The signal that was received and not met yet.
fn requested_signal() -> Option<StopSignal> {
    let signal = if IS_TERMINATED.load(Ordering::SeqCst) { StopSignal::Terminate } else { StopSignal::Interrupt };
    IS_REQUESTED.load(Ordering::SeqCst).then_some(signal)
}

impl Drop for StopGuard {
    fn drop(&mut self) {
        DRIVEN_RUNS.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn watch_signals() {
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return;
    };
    loop {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => IS_TERMINATED.store(true, Ordering::SeqCst),
        }
        let is_second = IS_REQUESTED.swap(true, Ordering::SeqCst);
        if is_second || DRIVEN_RUNS.load(Ordering::SeqCst) == 0 {
            show_typed_controls();
            std::process::exit(EXIT_CODE.into());
        }
        REQUESTED.notify_waiters();
    }
}
