//! [`LocalEngine`]: one process for each model file, shared fairly among users.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flowloom_core::StepFailure;
use flowloom_core::effect::{GenerateReply, GenerateRequest};
use flowloom_models::embed::Embed;
use flowloom_models::{InferenceEngine, LOCAL_MAX_ANSWER_TOKENS};
use flowloom_runtime::effects::{EffectContext, EffectFuture};
use flowloom_runtime::timing::ResponseTimer;
use parking_lot::Mutex;

use crate::embedding::LocalEmbedder;
use crate::gguf;
use crate::language::{self, AnswerJob};
use crate::process::ModelSlot;

/// The program to start for a model: this one, even after its file was replaced by an update.
#[cfg(target_os = "linux")]
const OWN_PROGRAM: &str = "/proc/self/exe";

/// The local models of a process.
pub struct LocalEngine {
    program: PathBuf,
    slots: Mutex<BTreeMap<PathBuf, Arc<ModelSlot>>>,
}

impl Default for LocalEngine {
    fn default() -> LocalEngine {
        #[cfg(target_os = "linux")]
        let program = PathBuf::from(OWN_PROGRAM);
        #[cfg(not(target_os = "linux"))]
        let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("flowloom"));
        LocalEngine::new(program)
    }
}

impl LocalEngine {
    /// An engine that has no process yet. `program` calls [`worker_main`](crate::worker_main) first.
    pub fn new(program: PathBuf) -> LocalEngine {
        LocalEngine { program, slots: Mutex::default() }
    }

    fn find_slot(&self, file: &Path) -> Arc<ModelSlot> {
        let mut slots = self.slots.lock();
        let slot = slots.entry(file.to_owned());
        slot.or_insert_with(|| ModelSlot::new(self.program.clone(), file.to_owned())).clone()
    }
}

impl InferenceEngine for LocalEngine {
    fn read_window(&self, file: &Path) -> Option<u64> {
        gguf::read_header(file).ok()?.window_tokens
    }

    fn generate<'a>(
        &'a self,
        file: &'a Path,
        request: &'a GenerateRequest,
        context: &'a EffectContext,
    ) -> EffectFuture<'a, GenerateReply> {
        let slot = self.find_slot(file);
        Box::pin(async move {
            let job = build_job(request, context);
            let with_tools = !job.tools.is_empty();
            let timer = Arc::new(ResponseTimer::start());
            let generated = slot.generate_answer(job, context, &timer).await?;
            let mut reply = language::to_reply(generated, with_tools);
            timer.add_to(&mut reply.response);
            Ok(reply)
        })
    }

    fn open_embedder(&self, folder: &Path) -> Result<Box<dyn Embed>, StepFailure> {
        Ok(Box::new(LocalEmbedder::new(folder)?))
    }
}

fn build_job(request: &GenerateRequest, context: &EffectContext) -> AnswerJob {
    let options = request.options.clone();
    // Without a seed, each attempt of each step has its own random numbers, and the same ones after a crash.
    let seed = options.seed.unwrap_or_else(|| hash_text(&context.idempotency_key()));
    AnswerJob {
        messages: request.messages.iter().cloned().collect(),
        tools: request.tools.clone(),
        schema: request.schema.clone().filter(|_| request.tools.is_empty()),
        max_tokens: options.max_tokens.map_or(LOCAL_MAX_ANSWER_TOKENS as usize, |most| most as usize),
        options,
        seed: (seed ^ (seed >> 32)) as u32,
    }
}

/// The 64-bit FNV-1a hash.
fn hash_text(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
