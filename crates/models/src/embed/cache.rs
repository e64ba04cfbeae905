//! Cache of embeddings by the hash of their text. Each cache belongs to one model.

use std::collections::HashMap;

use flowloom_core::{Hash, StepFailure};
use flowloom_runtime::effects::BoxFuture;
use parking_lot::{Mutex, MutexGuard};

use super::{Embed, Vector};
use crate::error::ModelError;

/// Maximum number of embeddings in one generation. Two generations of the local model's take 12 MB.
const MAX_VECTORS_PER_GENERATION: usize = 4096;

/// An embedding model with a cache.
pub(super) struct Cached {
    inner: Box<dyn Embed>,
    generations: Mutex<Generations>,
    most: usize,
}

/// Two generations. When the young one is full, it becomes the old one, and entries of the old one that were not used
/// are dropped.
#[derive(Default)]
struct Generations {
    young: HashMap<Hash, Vector>,
    old: HashMap<Hash, Vector>,
}

impl Generations {
    fn get_vector(&mut self, hash: Hash, most: usize) -> Option<Vector> {
        if let Some(vector) = self.young.get(&hash) {
            return Some(vector.clone());
        }
        let vector = self.old.remove(&hash)?;
        self.put_vector(hash, vector.clone(), most);
        Some(vector)
    }

    fn put_vector(&mut self, hash: Hash, vector: Vector, most: usize) {
        if self.young.len() >= most {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(hash, vector);
    }
}

impl Cached {
    pub(super) fn new(inner: Box<dyn Embed>) -> Cached {
        Cached { inner, generations: Mutex::default(), most: MAX_VECTORS_PER_GENERATION }
    }

    fn lock_generations(&self) -> MutexGuard<'_, Generations> {
        self.generations.lock()
    }

    async fn embed_all(&self, texts: &[String]) -> Result<Vec<Vector>, ModelError> {
        let hashes: Vec<Hash> = texts.iter().map(|text| Hash::of_bytes(text.as_bytes())).collect();
        let mut known: HashMap<Hash, Vector> = HashMap::new();
        let (mut missing, mut wanted) = (Vec::new(), Vec::new());
        {
            let mut generations = self.lock_generations();
            for (hash, text) in hashes.iter().zip(texts) {
                match generations.get_vector(*hash, self.most) {
                    Some(vector) => drop(known.insert(*hash, vector)),
                    None if missing.contains(hash) => {}
                    None => {
                        missing.push(*hash);
                        wanted.push(text.clone());
                    }
                }
            }
        }
        if !wanted.is_empty() {
            let made = self.inner.embed_texts(&wanted).await?;
            let mut generations = self.lock_generations();
            for (hash, vector) in missing.into_iter().zip(made) {
                generations.put_vector(hash, vector.clone(), self.most);
                known.insert(hash, vector);
            }
        }
        let found: Option<Vec<Vector>> = hashes.iter().map(|hash| known.get(hash).cloned()).collect();
        found.ok_or(ModelError::FewerEmbeddings)
    }
}

impl Embed for Cached {
    fn model_name(&self) -> &str {
        self.inner.model_name()
    }

    fn embed_texts<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vector>, StepFailure>> {
        Box::pin(async move { Ok(self.embed_all(texts).await?) })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Returns the length of a text as its embedding, and records the texts it is called with.
    #[derive(Clone, Default)]
    struct Counting(Arc<Mutex<Vec<String>>>);

    impl Embed for Counting {
        fn model_name(&self) -> &str {
            "test:length"
        }

        fn embed_texts<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vector>, StepFailure>> {
            self.0.lock().extend_from_slice(texts);
            let vectors = texts.iter().map(|text| Vector::from([text.len() as f32])).collect();
            Box::pin(std::future::ready(Ok(vectors)))
        }
    }

    fn to_texts(all: &[&str]) -> Vec<String> {
        all.iter().map(|text| (*text).to_owned()).collect()
    }

    #[tokio::test]
    async fn a_text_is_embedded_once_while_it_is_remembered() {
        let counting = Counting::default();
        let cached = Cached { most: 2, ..Cached::new(Box::new(counting.clone())) };
        let embed = async |all: &[&str]| {
            let lengths =
                cached.embed_texts(&to_texts(all)).await.unwrap().iter().map(|vector| vector[0] as usize).collect();
            (lengths, std::mem::take(&mut *counting.0.lock()))
        };
        assert_eq!(embed(&["a", "bb", "a"]).await, (vec![1, 2, 1], to_texts(&["a", "bb"])));
        assert_eq!(embed(&["bb", "ccc"]).await, (vec![2, 3], to_texts(&["ccc"])));
        // `a` is in the old generation. Using it makes it young; unused entries are dropped with the next generation.
        assert_eq!(embed(&["a", "dddd"]).await, (vec![1, 4], to_texts(&["dddd"])));
        assert_eq!(embed(&["bb"]).await, (vec![2], to_texts(&["bb"])));
        let generations = cached.lock_generations();
        assert!(generations.young.len() + generations.old.len() <= 4);
    }
}
