//! A session that Restate has given up, because it stops or cannot reach this process: the effects in progress that must not
//! be sent twice end, and their outcomes are stored. The next attempt waits for that, and resumes the run from the events.

use flowloom_runtime::JournalError;
use flowloom_runtime::journal::LeaseState;

use crate::entry::{BatchEntry, InFlight};
use crate::journal::AppendRequest;
use crate::session::{LiveSession, PendingAppend};

/// Drives a run on until no effect is in progress that must not be sent twice. The run is released when the session is
/// dropped. Restate does not have the events, but the next attempt reads them from the store.
pub(crate) async fn drain_session(mut live: LiveSession, mut in_flight: InFlight) {
    // Restate may have this batch, so all of it is stored.
    if let Some(PendingAppend { append: AppendRequest { batch, reply }, is_accepted }) = live.pending.take() {
        in_flight.note_records(&batch.records);
        let stored = match is_accepted {
            true => live.projection.progress_handle().wait_stored().await,
            false => store_events(&live, &live.to_entry(batch)).await,
        };
        drop(reply.send(stored));
    }
    while in_flight.has_at_most_once() && !live.driven.is_finished() {
        let failing = live.projection.progress_handle();
        let AppendRequest { mut batch, reply } = tokio::select! {
            biased;
            // Another worker has the run.
            _ = failing.wait_for_failure() => return,
            Some(append) = live.appends.recv() => append,
            _ = &mut live.driven => return,
        };
        let idle_after = in_flight.count_until_idle(&batch.records).filter(|_| batch.decided.is_empty());
        in_flight.note_records(&batch.records);
        if let Some(count) = idle_after {
            // The remaining sessions would start effects that are not completed.
            batch.records.truncate(count);
            batch.releases_lease = false;
            if let Err(error) = store_events(&live, &live.to_entry(batch)).await {
                let run = live.run_id();
                tracing::warn!(%run, code = %error.code(), "cannot store how an effect has ended: {error}");
            }
            return;
        }
        let stored = store_events(&live, &live.to_entry(batch)).await;
        drop(reply.send(stored));
    }
}

async fn store_events(live: &LiveSession, entry: &BatchEntry) -> Result<LeaseState, JournalError> {
    live.projection.store_batch(entry, None).await?;
    live.projection.progress_handle().wait_stored().await
}
