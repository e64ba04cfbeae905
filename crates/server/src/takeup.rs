//! Takes up the runs whose process has gone, at the start and again and again: those of an earlier server, of another one
//! that shares the database, and of commands.

use std::collections::HashSet;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::id::RunId;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::Orphan;
use tokio_util::sync::CancellationToken;

use crate::state::Server;

/// Runs that are taken up before it is looked again, so that several servers share what one has left.
const BATCH: u32 = 64;

/// What this server has taken up, or tried to.
pub(crate) struct TakeUp {
    server: Server,
    /// Runs that do not go on here, which has been said.
    refused: HashSet<RunId>,
}

impl TakeUp {
    pub(crate) fn new(server: Server) -> TakeUp {
        TakeUp { server, refused: HashSet::new() }
    }

    /// Looks every now and then, until the server is told to stop.
    pub(crate) async fn keep_looking(mut self, told: CancellationToken) {
        let pause = self.server.app.config.take_up;
        while told.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
            // A database that cannot be asked now is asked again.
            let _ = self.look().await;
        }
    }

    /// Takes up what nobody drives, as far as there is room.
    pub(crate) async fn look(&mut self) -> Result<(), StepError> {
        let mut tried = HashSet::new();
        while self.server.live.admit().is_ok() {
            let store = self.server.app.store.clone();
            let limit = BATCH + u32::try_from(self.refused.len()).unwrap_or(u32::MAX - BATCH);
            let found = crate::blocking::blocking(move || store.orphans(limit)).await;
            let Ok(found) = found else { return Ok(()) };
            let mut found = found?;
            // One that nothing came of is left to the next look.
            found.retain(|orphan| !self.refused.contains(&orphan.id) && tried.insert(orphan.id));
            if found.is_empty() {
                return Ok(());
            }
            for orphan in found {
                if self.server.live.admit().is_err() {
                    return Ok(());
                }
                self.go_on(orphan).await?;
            }
        }
        Ok(())
    }

    async fn go_on(&mut self, orphan: Orphan) -> Result<(), StepError> {
        let id = orphan.id;
        let done = match orphan.is_hopeless {
            true => self.server.app.store.quarantine(id, SystemClock.now_ms()).await,
            false => self.server.runs.resume(id).await,
        };
        match done {
            Ok(()) if orphan.is_hopeless => {
                tracing::warn!(
                    "the run {id} was taken up again and again and got no further; flowloom resume {id} tries once more"
                );
            }
            Ok(()) => {}
            // Another server was quicker.
            Err(error) if error.code == Code::RunOwned => {}
            Err(error) if is_passing(error.code) => return Err(error),
            Err(error) => {
                self.refused.insert(id);
                tracing::warn!("the run {id} does not go on: {error}");
            }
        }
        Ok(())
    }
}

/// Whether it is the database that is unwell, and not the run.
fn is_passing(code: Code) -> bool {
    matches!(code, Code::StoreFailed | Code::StoreLocked | Code::StoreFull | Code::StoreReadOnly)
}
