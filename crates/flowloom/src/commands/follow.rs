//! `--follow`: the events of a run as they are written, whatever process drives it.

use std::time::{Duration, Instant};

use flowloom_app::engines::App;
use flowloom_app::runs::stored::LoadedRun;
use flowloom_core::event::Record;
use flowloom_core::status::Status;
use flowloom_runtime::journal::Journal as _;

use crate::failure::CommandError;

/// Interval of reading the journal of a run that another process drives.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// How long a run that is interrupted while it is watched may take to continue: a server that restarts reclaims its runs.
const RECLAIM_WAIT: Duration = Duration::from_secs(30);

/// Calls `see` with each event of a run until it ends or waits.
pub(super) async fn follow_events(
    app: &App,
    opened: LoadedRun,
    see: &mut dyn FnMut(&Record),
) -> Result<LoadedRun, CommandError> {
    let id = opened.id;
    let (mut records, mut last, mut progress) = (opened.records, 0, FollowedRun::default());
    loop {
        records.iter().for_each(|record| see(record));
        last = records.last().map_or(last, |record| record.seq);
        // Read before the events: what happened before it ended is among them.
        let row = app.store.get_run(id)?;
        let is_over = row.is_none_or(|row| progress.is_over(row.current_status(), Instant::now()));
        records = app.store.read(id, last).await?;
        if is_over && records.is_empty() {
            return Ok(app.runs.open_run_by_id(id).await?);
        }
        if records.is_empty() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// What was seen of a run so far.
#[derive(Default)]
struct FollowedRun {
    was_driven: bool,
    interrupted_at: Option<Instant>,
}

impl FollowedRun {
    /// Whether nothing more is expected to happen to a run with this status.
    fn is_over(&mut self, status: &str, now: Instant) -> bool {
        if [Status::Queued.name(), Status::Running.name()].contains(&status) {
            *self = FollowedRun { was_driven: true, interrupted_at: None };
            return false;
        }
        if status != Status::Interrupted.name() || !self.was_driven {
            return true;
        }
        if self.interrupted_at.is_none() {
            let seconds = RECLAIM_WAIT.as_secs();
            eprintln!("the run was interrupted; waiting {seconds} s for a server to continue it");
        }
        now.duration_since(*self.interrupted_at.get_or_insert(now)) >= RECLAIM_WAIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_may_be_interrupted_while_its_server_restarts() {
        let (mut run, start) = (FollowedRun::default(), Instant::now());
        let mut is_over = |status: Status, second: u64| run.is_over(status.name(), start + Duration::from_secs(second));
        assert!(!is_over(Status::Running, 0));
        assert!(!is_over(Status::Interrupted, 1) && !is_over(Status::Interrupted, 30));
        // It continued, and is interrupted again.
        assert!(!is_over(Status::Running, 31) && !is_over(Status::Interrupted, 40));
        assert!(!is_over(Status::Interrupted, 69) && is_over(Status::Interrupted, 70));
        assert!(is_over(Status::Waiting, 71) && is_over(Status::Succeeded, 72));
    }

    #[test]
    fn a_run_that_was_interrupted_before_is_over() {
        assert!(FollowedRun::default().is_over(Status::Interrupted.name(), Instant::now()));
    }
}
