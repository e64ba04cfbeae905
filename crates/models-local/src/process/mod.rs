//! Language models run in processes of their own: an abort in llama.cpp fails a step, not the server, and an idle model
//! gives its memory back.
//!
//! [`ModelSlot`] is a model's place in the parent, `handle` a running process, `worker` what runs in it, and `protocol`
//! what they say to each other.

mod handle;
pub(crate) mod processor;
mod protocol;
mod worker;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flowloom_runtime::effects::EffectContext;
use flowloom_runtime::fair::FairSemaphore;
use flowloom_runtime::timing::ResponseTimer;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::error::LocalModelError;
use crate::language::{AnswerJob, GeneratedText};
use handle::ModelProcess;
pub use worker::worker_main;

/// How long a model stays in memory without a call.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// The place of a model file, with the process that has it loaded.
pub(crate) struct ModelSlot {
    program: PathBuf,
    file: PathBuf,
    /// One permit, which is held for a whole answer: two at the same time would only share the cores.
    turns: FairSemaphore,
    /// Started by the first call, and again after it ended.
    process: Mutex<Option<ModelProcess>>,
    /// Number of calls so far.
    call_count: AtomicU64,
}

impl ModelSlot {
    /// A slot without a process.
    pub(crate) fn new(program: PathBuf, file: PathBuf) -> Arc<ModelSlot> {
        let turns = FairSemaphore::new("local_model", 1, 1);
        Arc::new(ModelSlot { program, file, turns, process: Mutex::default(), call_count: AtomicU64::new(0) })
    }

    /// Has an answer generated when it is the user's turn. If the call is dropped, the process is asked to stop, and
    /// the next call waits until it has.
    pub(crate) async fn generate_answer(
        self: Arc<ModelSlot>,
        job: AnswerJob,
        context: &EffectContext,
        timer: &Arc<ResponseTimer>,
    ) -> Result<GeneratedText, LocalModelError> {
        let turn = self.turns.acquire_permit(&context.user).await;
        timer.end_queue();
        let stop = CancellationToken::new();
        let stop_on_drop = stop.clone().drop_guard();
        let (context, timer) = (context.clone(), timer.clone());
        let work = tokio::spawn(async move {
            let result = self.generate_now(job, &context, &timer, &stop).await;
            // Before the turn ends, so that no other call is counted in between.
            self.unload_when_idle();
            drop(turn);
            result
        });
        let result = work.await;
        stop_on_drop.disarm();
        result.map_err(LocalModelError::Panicked)?
    }

    async fn generate_now(
        &self,
        job: AnswerJob,
        context: &EffectContext,
        timer: &ResponseTimer,
        stop: &CancellationToken,
    ) -> Result<GeneratedText, LocalModelError> {
        let mut place = self.process.lock().await;
        self.call_count.fetch_add(1, Ordering::Relaxed);
        let mut process = match place.take() {
            Some(process) => process,
            None => ModelProcess::start(&self.program, &self.file).await?,
        };
        let show = |text: &str| {
            timer.note_text();
            context.deltas.push(&context.path, context.attempt, text);
        };
        let result = process.generate_answer(job, stop, show).await;
        // A process that failed in another way cannot be used any more.
        if matches!(result, Ok(_) | Err(LocalModelError::Generation(_))) {
            *place = Some(process);
        }
        result
    }

    /// Ends the process unless there is another call in time. Calls are counted under the lock of the process, so a call
    /// that is running when the time is up counts.
    fn unload_when_idle(self: Arc<ModelSlot>) {
        let call = self.call_count.load(Ordering::Relaxed);
        tokio::spawn(async move {
            tokio::time::sleep(IDLE_TIMEOUT).await;
            let mut place = self.process.lock().await;
            if self.call_count.load(Ordering::Relaxed) == call {
                *place = None;
            }
        });
    }
}
