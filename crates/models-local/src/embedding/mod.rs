//! The embedding model of this process: finds its files, and computes on a thread of its own, one call after the other.
//! `minilm` computes.

pub(crate) mod error;
mod minilm;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};

use flowloom_core::StepFailure;
use flowloom_models::LOCAL_EMBEDDING_MODEL as NAME;
use flowloom_models::embed::{Embed, Vector, normalize};
use flowloom_runtime::effects::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use error::EmbeddingError;
use minilm::MiniLm;

use crate::error::LocalModelError;

/// all-MiniLM-L6-v2 from the cache folder.
pub(crate) struct LocalEmbedder {
    model: String,
    files: ModelFiles,
    /// The thread that computes, once there was a call.
    thread: Mutex<Option<Sender<EmbedJob>>>,
}

#[derive(Clone)]
struct ModelFiles {
    tokenizer: PathBuf,
    weights: PathBuf,
}

/// Texts to embed. The caller that waits for the reply may give up, which the thread notices.
struct EmbedJob {
    texts: Vec<String>,
    reply: oneshot::Sender<Result<Vec<Vector>, LocalModelError>>,
}

impl LocalEmbedder {
    /// The model in a folder.
    pub(crate) fn new(folder: &Path) -> Result<LocalEmbedder, LocalModelError> {
        let [tokenizer, weights] = ["tokenizer.json", "onnx"].map(|ending| folder.join(format!("{NAME}.{ending}")));
        if let Some(missing) = [&tokenizer, &weights].into_iter().find(|file| !file.is_file()) {
            return Err(LocalModelError::FileMissing { file: missing.clone() });
        }
        let files = ModelFiles { tokenizer, weights };
        Ok(LocalEmbedder { model: format!("local:{NAME}"), files, thread: Mutex::default() })
    }

    async fn embed_all(&self, texts: &[String]) -> Result<Vec<Vector>, LocalModelError> {
        let (reply, answer) = oneshot::channel();
        self.send_job(EmbedJob { texts: texts.to_vec(), reply })?;
        answer.await.unwrap_or(Err(EmbeddingError::Crashed.into()))
    }

    /// Hands a job to the thread, which is started if there is none, or if it panicked.
    fn send_job(&self, mut job: EmbedJob) -> Result<(), LocalModelError> {
        let mut thread = self.thread.lock();
        if let Some(jobs) = &*thread {
            match jobs.send(job) {
                Ok(()) => return Ok(()),
                Err(returned) => job = returned.0,
            }
        }
        let (jobs, receiver) = channel();
        let files = self.files.clone();
        let spawned =
            std::thread::Builder::new().name("embeddings".to_owned()).spawn(move || embed_jobs(&files, &receiver));
        spawned.map_err(EmbeddingError::NoThread)?;
        // The thread waits for this job, so it cannot be gone.
        let _ = jobs.send(job);
        *thread = Some(jobs);
        Ok(())
    }
}

/// Loads the model for the first job and ends with the last sender. The tokenizer cannot leave its thread.
fn embed_jobs(files: &ModelFiles, jobs: &Receiver<EmbedJob>) {
    let mut loaded = None;
    for mut job in jobs {
        let result = embed_texts(files, &mut loaded, &mut job);
        // No caller waits for it any more.
        let _ = job.reply.send(result);
    }
}

fn embed_texts(
    files: &ModelFiles,
    loaded: &mut Option<MiniLm>,
    job: &mut EmbedJob,
) -> Result<Vec<Vector>, LocalModelError> {
    let model = match loaded {
        Some(model) => model,
        empty => empty.insert(MiniLm::load_files(&files.tokenizer, &files.weights)?),
    };
    // One text at a time: an embedding does not depend on the other texts.
    let mut vectors = Vec::with_capacity(job.texts.len());
    for text in &job.texts {
        if job.reply.is_closed() {
            return Err(LocalModelError::EmbeddingCancelled);
        }
        vectors.push(normalize(model.embed_text(text)?));
    }
    Ok(vectors)
}

impl Embed for LocalEmbedder {
    fn model_name(&self) -> &str {
        &self.model
    }

    fn embed_texts<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vector>, StepFailure>> {
        Box::pin(async move { Ok(self.embed_all(texts).await?) })
    }
}

#[cfg(test)]
mod tests;
