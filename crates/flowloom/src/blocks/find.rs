//! Finding blocks by what they do: by words and by vectors, or by words alone where there are no vectors.

use flowloom_core::block::{Card, Fit, Thresholds, fit};
use flowloom_core::error::StepError;
use flowloom_core::json::parse_value;
use flowloom_core::value::Value;
use flowloom_store::{BROUGHT, BlockQuery, DefinitionKey, FoundBlock, Kind, Store};

use super::embeddings::Made;
use super::{Registry, built_in_block};

/// How near a block without a common word must be to what a person looks for. What fits is another question: this only
/// leaves out what has nothing to do with it.
const NEAR: f32 = 0.3;

/// What was found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Finding {
    /// The blocks, best first.
    pub(crate) found: Vec<Found>,
    /// Why words alone decided, if vectors should have.
    pub(crate) by_words: Option<StepError>,
}

/// A block that was found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// Its definition.
    pub(crate) block: Value,
    /// What both orders give it, by which it has its place.
    pub(crate) score: f64,
    /// How near its text is; `None` without vectors.
    pub(crate) similarity: Option<f32>,
    /// Whether it does what is wanted.
    pub(crate) fit: Fit,
}

impl Registry {
    /// The blocks of `holder`, of everyone, and built in, that come nearest to what is wanted.
    pub(crate) async fn find(&self, holder: &str, wanted: &Card, limit: usize) -> Result<Finding, StepError> {
        self.bring().await?;
        let (vector, by_words) = match self.embeddings.of_query(&wanted.text()).await {
            Ok(vector) => (vector, None),
            Err(error) => (None, Some(error)),
        };
        let (holder, wanted, thresholds) = (holder.to_owned(), wanted.clone(), self.embeddings.thresholds());
        let found = self.blocking(move |store| found(store, (&holder, &wanted), vector.as_ref(), &thresholds, limit));
        Ok(Finding { found: found.await?, by_words })
    }

    /// The blocks that somebody may mean who writes a few words.
    pub(crate) async fn search(&self, holder: &str, words: &str, limit: usize) -> Result<Finding, StepError> {
        let wanted = Card { description: words.to_owned(), ..Card::default() };
        self.find(holder, &wanted, limit).await
    }
}

fn found(
    store: &Store,
    (holder, wanted): (&str, &Card),
    vector: Option<&Made>,
    thresholds: &Thresholds,
    limit: usize,
) -> Result<Vec<Found>, StepError> {
    let words = wanted.words();
    let vector = vector.map(|made| (made.model.as_str(), &*made.vector));
    let near = store.find_blocks(BlockQuery { holder, words: &words, vector, limit })?;
    let mut all = Vec::new();
    for one in near.into_iter().filter(is_near) {
        // One that was taken away since, or that another release brings, is none.
        let Some(block) = block(store, &one)? else { continue };
        let fit = fit(wanted, &Card::of(&block), one.similarity, thresholds);
        all.push(Found { block, score: one.score, similarity: one.similarity, fit });
    }
    Ok(all)
}

fn is_near(found: &FoundBlock) -> bool {
    found.words.is_some() || found.similarity.is_some_and(|similarity| similarity >= NEAR)
}

fn block(store: &Store, found: &FoundBlock) -> Result<Option<Value>, StepError> {
    if found.holder == BROUGHT {
        return Ok(built_in_block(&found.id).cloned());
    }
    let key = DefinitionKey { holder: found.holder.clone(), kind: Kind::Block, id: found.id.clone() };
    Ok(store.definition(&key)?.and_then(|row| parse_value(&row.content).ok()))
}
