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

use flowloom_core::block::words;
use flowloom_core::error::StepError;

use crate::Store;
use crate::db::{Connection, Error, params};
use crate::definitions::SHARED;

pub use index::Unembedded;
pub(crate) use index::{catch_up, forget, keep};
use vectors::Likeness;
pub(crate) use vectors::Vectors;

/// User name of the built-in blocks. No user has a name with a control character.
pub const BROUGHT: &str = "\u{1}brought";

/// Number of places of each ranking that count.
const DEPTH: usize = 50;
/// Constant of reciprocal rank fusion: the higher, the more slowly a place loses weight. 60 is the usual value.
const FLAT: f64 = 60.0;

/// A search for blocks.
#[derive(Clone, Copy, Debug)]
pub struct BlockQuery<'a> {
    /// User whose blocks are searched, in addition to shared and built-in ones.
    pub holder: &'a str,
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
    /// User that owns the block; [`BROUGHT`] for built-in blocks.
    pub holder: String,
    /// Id of the block.
    pub id: String,
    /// Combined score of both rankings, by which results are ordered.
    pub score: f64,
    /// Full-text score; `None` if the block is not among the best matches of the words.
    pub words: Option<f64>,
    /// Cosine similarity of the block's and the query's embeddings; `None` if one of them is missing.
    pub similarity: Option<f32>,
}

/// Name of a block within one search: its user and its id.
type Name = (String, String);

impl Store {
    /// Searches for blocks of a user, shared blocks and built-in ones. Of several blocks with one id, the user's comes
    /// before the shared one, and that before the built-in one.
    pub fn find_blocks(&self, query: BlockQuery<'_>) -> Result<Vec<FoundBlock>, StepError> {
        self.read_with(|db| {
            let likeness = query.vector.map(|(model, vector)| self.vectors.compare(db, query.holder, model, vector));
            Ok(fuse(&by_words(db, query)?, likeness.transpose()?.as_ref(), query.limit))
        })
    }
}

fn by_words(connection: &Connection, query: BlockQuery<'_>) -> Result<Vec<(Name, f64)>, Error> {
    let words = words(query.words);
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let (matching, asked) = match connection {
        Connection::Sqlite(_) => (
            "select card.holder, card.id, -block_words.rank as score from block_words \
             join block_card card on card.number = block_words.rowid where block_words match $1",
            // A quoted word has no special meaning.
            words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" OR "),
        ),
        Connection::Postgres(_) => (
            "select card.holder, card.id, ts_rank(card.words, asked)::float8 as score \
             from to_tsquery('english', $1) asked, block_card card where card.words @@ asked",
            words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" | "),
        ),
    };
    // Blocks that the user overrides are filtered out of the best matches only. Checking every match would take longer
    // than all the rest.
    let sql = format!(
        "with best as ({matching} and (card.holder = $2 or card.holder = $3 or card.holder = $4) \
         order by score desc, card.holder, card.id limit 3 * $5) \
         select holder, id, score from best where holder = $2 or not exists \
         (select 1 from block_card other where other.id = best.id and (other.holder = $2 \
         or other.holder = $3 and best.holder = $4)) \
         order by score desc, holder, id limit $5"
    );
    connection.query(&sql, params![&asked, query.holder, SHARED, BROUGHT, DEPTH as u64], |row| {
        Ok(((row.get(0)?, row.get(1)?), row.get(2)?))
    })
}

/// Combines two rankings.
fn fuse(words: &[(Name, f64)], likeness: Option<&Likeness>, limit: usize) -> Vec<FoundBlock> {
    let weight = |place: usize| 1.0 / (FLAT + 1.0 + place as f64);
    let mut all: BTreeMap<Name, FoundBlock> = BTreeMap::new();
    let blank = |(holder, id): &Name| {
        let similarity = likeness.and_then(|likeness| likeness.of(holder, id));
        FoundBlock { holder: holder.clone(), id: id.clone(), score: 0.0, words: None, similarity }
    };
    for (place, (name, score)) in words.iter().enumerate() {
        let found = all.entry(name.clone()).or_insert_with(|| blank(name));
        found.score += weight(place);
        found.words = Some(*score);
    }
    let nearest = likeness.map(|likeness| likeness.nearest(DEPTH)).unwrap_or_default();
    for (place, name) in nearest.iter().enumerate() {
        all.entry(name.clone()).or_insert_with(|| blank(name)).score += weight(place);
    }
    let mut found: Vec<FoundBlock> = all.into_values().collect();
    found.sort_by(|a, b| b.score.total_cmp(&a.score));
    found.truncate(limit);
    found
}
