//! The kernel's information about an interpreter, which its block cannot influence: its processor time, and whether it
//! sleeps. An interpreter that computes without a turn is stopped until it has one.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::lock::raw;

/// An interpreter as the kernel sees it.
pub(super) struct InterpreterWatch {
    process: Pid,
    handle: OwnedFd,
}

impl InterpreterWatch {
    /// Watches a process; `None` if it has ended.
    pub(super) fn open(process: i32) -> Option<InterpreterWatch> {
        let process = Pid::from_raw(process)?;
        let handle = pidfd_open(process, PidfdFlags::empty()).ok()?;
        Some(InterpreterWatch { process, handle })
    }

    /// The processor time that it has used; `None` if it has ended.
    pub(super) fn read_processor_time(&self) -> Option<Duration> {
        raw::read_processor_time(self.process).ok()
    }

    /// Whether it sleeps. One that could compute and only waits for a processor does not.
    pub(super) fn is_sleeping(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.as_raw_nonzero())).unwrap_or_default();
        // The name before it may contain anything.
        stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('S'))
    }

    /// Stops it until it is resumed, whatever it does.
    pub(super) fn stop(&self) {
        // If it cannot be stopped, its time is counted all the same.
        let _ = pidfd_send_signal(&self.handle, Signal::STOP);
    }

    /// Lets it continue.
    pub(super) fn resume(&self) {
        let _ = pidfd_send_signal(&self.handle, Signal::CONT);
    }
}
