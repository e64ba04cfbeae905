//! The effects of an event on the row of its run.

use flowloom_core::event::{Event, Record};
use flowloom_core::status::Status;

/// The status that an event gives its run; `None` if it does not change it.
pub(crate) fn status_after(event: &Event) -> Option<Status> {
    match event {
        // The run continues after the command that ended its wait.
        Event::RunStarted { .. }
        | Event::Answered { .. }
        | Event::Resolved { .. }
        | Event::ChildResumed { .. }
        | Event::RunReopened { .. } => Some(Status::Running),
        Event::RunSuspended { status } | Event::RunFinished { status, .. } => Some(*status),
        _ => None,
    }
}

/// Whether a record is progress of its run.
pub(crate) fn is_progress(record: &Record) -> bool {
    !matches!(record.event, Event::RunStarted { .. } | Event::RunSuspended { .. })
}
