//! Hybrid search for blocks: full text and vectors, each with its own ranking, combined by reciprocal rank fusion. The
//! index is in `index`, the vectors in memory in `vectors`.
//!
//! Both databases store vectors as plain bytes and this process compares them. Ten thousand vectors take two
//! milliseconds, with an exact result, on SQLite as on any Postgres. pgvector would have to be installed by the owner
//! of the database, and its index is approximate.
//!
//! Built-in blocks are found together with stored ones, although they are not definitions of the store.

mod index;
mod vectors;

use std::collections::BTreeMap;

use flowloom_core::block::significant_words;
use flowloom_runtime::journal::split_owner;

use crate::db::dialect::WordSearch;
use crate::db::{DbConnection, params};
use crate::error::StoreError;
use crate::store::Store;
use crate::users::{BUILTIN_USER, SHARED_USER};

pub use index::UnembeddedText;
pub(crate) use index::{index_block, index_missing_blocks, remove_block};
use vectors::Similarities;
pub(crate) use vectors::VectorCache;

/// Number of places of each ranking that count.
const MAX_RANKED_BLOCKS: usize = 50;
/// Constant of reciprocal rank fusion: the higher, the more slowly a place loses weight. 60 is the usual value.
const RANK_FUSION_CONSTANT: f64 = 60.0;

/// A search for blocks.
#[derive(Clone, Copy, Debug)]
pub struct BlockQuery<'a> {
    /// User whose blocks are searched, in addition to shared and built-in ones.
    pub user: &'a str,
    /// The words to search for.
    pub words: &'a str,
    /// Name of the embedding model and the embedding of the query; without them, only words count.
    pub vector: Option<(&'a str, &'a [f32])>,
    /// Maximum number of results.
    pub limit: usize,
}

/// A search result.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundBlock {
    /// User that owns the block; [`BUILTIN_USER`] for built-in blocks.
    pub user: String,
    /// Id of the block.
    pub id: String,
    /// Combined score of both rankings, by which results are ordered.
    pub score: f64,
    /// Full-text score; `None` if the block is not among the best matches of the words.
    pub words: Option<f64>,
    /// Cosine similarity of the block's and the query's embeddings; `None` if one of them is missing.
    pub similarity: Option<f32>,
}

/// The owners of the stored blocks that are searched.
#[derive(Clone, Copy)]
pub(crate) struct BlockOwners<'a> {
    user: &'a str,
    /// Owner of the shared blocks.
    everyone: &'a str,
}

/// Name of a block within one search: its user and its id.
type BlockName = (String, String);

impl Store {
    /// Searches for blocks of a user, shared blocks and built-in ones. Of several blocks with one id, the user's comes
    /// before the shared one, and that before the built-in one. Fails if the database cannot be read.
    pub fn search_blocks(&self, query: BlockQuery<'_>) -> Result<Vec<FoundBlock>, StoreError> {
        let (user, everyone) = (self.owner_of(query.user), self.owner_of(SHARED_USER));
        let owners = BlockOwners { user: &user, everyone: &everyone };
        let found = self.read_with(|db| {
            let similarity = query.vector.map(|(model, vector)| self.vectors.compare_blocks(db, owners, model, vector));
            Ok(fuse_rankings(&search_words(db, query.words, owners)?, similarity.transpose()?.as_ref(), query.limit))
        })?;
        let with_user = |block: FoundBlock| FoundBlock { user: split_owner(&block.user).0.to_owned(), ..block };
        Ok(found.into_iter().map(with_user).collect())
    }
}

fn search_words(
    connection: &DbConnection,
    words: &str,
    owners: BlockOwners<'_>,
) -> Result<Vec<(BlockName, f64)>, StoreError> {
    let words = significant_words(words);
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let WordSearch { matching, asked } = connection.search_words(&words);
    // Blocks that the user overrides are filtered out of the best matches only. Checking every match would take longer
    // than all the rest.
    let sql = format!(
        "with best as ({matching} and (card.user_id = $2 or card.user_id = $3 or card.user_id = $4) \
         order by score desc, card.user_id, card.id limit 3 * $5) \
         select user_id, id, score from best where user_id = $2 or not exists \
         (select 1 from block_card other where other.id = best.id and (other.user_id = $2 \
         or other.user_id = $3 and best.user_id = $4)) \
         order by score desc, user_id, id limit $5"
    );
    connection.query_rows(
        &sql,
        params![&asked, owners.user, owners.everyone, BUILTIN_USER, MAX_RANKED_BLOCKS as u64],
        |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?)),
    )
}

/// Combines two rankings.
fn fuse_rankings(words: &[(BlockName, f64)], similarity: Option<&Similarities>, limit: usize) -> Vec<FoundBlock> {
    let weight = |place: usize| 1.0 / (RANK_FUSION_CONSTANT + 1.0 + place as f64);
    let mut all: BTreeMap<BlockName, FoundBlock> = BTreeMap::new();
    let blank = |(user, id): &BlockName| {
        let similarity = similarity.and_then(|similarity| similarity.similarity_of(user, id));
        FoundBlock { user: user.clone(), id: id.clone(), score: 0.0, words: None, similarity }
    };
    for (place, (name, score)) in words.iter().enumerate() {
        let found = all.entry(name.clone()).or_insert_with(|| blank(name));
        found.score += weight(place);
        found.words = Some(*score);
    }
    let nearest = similarity.map(|similarity| similarity.nearest_blocks(MAX_RANKED_BLOCKS)).unwrap_or_default();
    for (place, name) in nearest.iter().enumerate() {
        all.entry(name.clone()).or_insert_with(|| blank(name)).score += weight(place);
    }
    let mut found: Vec<FoundBlock> = all.into_values().collect();
    found.sort_by(|a, b| b.score.total_cmp(&a.score));
    found.truncate(limit);
    found
}
