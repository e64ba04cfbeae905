//! Finding blocks: full text and vectors, each with its own order, fused by reciprocal rank. What is kept of a block for
//! that is in `index`, the vectors in memory in `vectors`.
//!
//! Vectors are kept as plain bytes on both databases and compared in this process: ten thousand take two milliseconds to
//! look through, with an exact result, on SQLite as on any Postgres. pgvector would have to be installed by whoever owns
//! the database, and its index would only approximate.
//!
//! Blocks that the program brings are found beside those that are kept, though they are no definitions of the store.

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

/// Whose the blocks are that the program brings. No user has a name with a control character.
pub const BROUGHT: &str = "\u{1}brought";

/// Places of each order that count.
const DEPTH: usize = 50;
/// How slowly a place loses weight; the usual constant of reciprocal rank fusion.
const FLAT: f64 = 60.0;

/// What is looked for.
#[derive(Clone, Copy, Debug)]
pub struct BlockQuery<'a> {
    /// Whose blocks, besides those that everyone has and those that the program brings.
    pub holder: &'a str,
    /// The words of it.
    pub words: &'a str,
    /// The vector of its text and the model that made it; without one, words alone decide.
    pub vector: Option<(&'a str, &'a [f32])>,
    /// Most blocks that are wanted.
    pub limit: usize,
}

/// A block that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundBlock {
    /// Whose it is; [`BROUGHT`] is the program's.
    pub holder: String,
    /// Its id.
    pub id: String,
    /// What both orders give it together, by which the result is ordered.
    pub score: f64,
    /// What the full text gives it; `None` if it has none of the words, or others had more of them.
    pub words: Option<f64>,
    /// Cosine of the angle between its vector and the query's; `None` if one of them has none.
    pub similarity: Option<f32>,
}

/// A block within one search: its holder and its id.
type Name = (String, String);

impl Store {
    /// The blocks that come nearest to a query: of a holder, then of everyone, then of the program; of those of one id the
    /// first.
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
            // A word in quotes is nothing but a word.
            words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" OR "),
        ),
        Connection::Postgres(_) => (
            "select card.holder, card.id, ts_rank(card.words, asked)::float8 as score \
             from to_tsquery('english', $1) asked, block_card card where card.words @@ asked",
            words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" | "),
        ),
    };
    // What the holder has another of is left out of the best only: asking that of every match would take longer than all
    // the rest.
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

/// Joins two orders.
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
