//! What is kept of a block so that it is found: its words, its text, and the vector that stands for the text. Written in
//! the transaction that changes the block; vectors follow when somebody has made them.

use flowloom_core::block::Card;
use flowloom_core::error::StepError;
use flowloom_core::hash::Hash;
use flowloom_core::json::parse_value;

use crate::db::{Connection, Error, Job, params};
use crate::{DefinitionKey, Kind, Store};

/// A text of blocks that has no vector yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unembedded {
    /// By which its vector is kept.
    pub hash: String,
    /// The text.
    pub text: String,
}

impl Store {
    /// Texts of blocks without a vector of this model, `most` of them at most.
    pub fn unembedded(&self, model: &str, most: usize) -> Result<Vec<Unembedded>, StepError> {
        let sql = "select distinct card.hash, card.content from block_card card where not exists \
                   (select 1 from embedding where embedding.model = $1 and embedding.hash = card.hash) \
                   order by card.hash limit $2";
        let read = |row: &crate::db::Row<'_>| Ok(Unembedded { hash: row.get(0)?, text: row.get(1)? });
        self.read_with(|db| db.query(sql, params![model, most as u64], read))
    }

    /// Keeps the vectors of texts by their hashes; those of blocks that are gone or changed meanwhile are left out.
    pub async fn keep_embeddings(&self, model: &str, vectors: Vec<(String, Vec<f32>)>) -> Result<(), StepError> {
        let model = model.to_owned();
        let vectors: Vec<(String, Vec<u8>)> =
            vectors.into_iter().map(|(hash, vector)| (hash, super::vectors::to_bytes(&vector))).collect();
        let job = move |connection: &Connection| {
            connection.one_at_a_time("definitions")?;
            vectors.iter().try_for_each(|(hash, vector)| keep_vector(connection, &model, hash, vector))
        };
        self.writer.submit(Box::new(job)).await
    }
}

fn keep_vector(connection: &Connection, model: &str, hash: &str, vector: &[u8]) -> Result<(), Error> {
    let sql = "insert into embedding (model, hash, vector) select $1, $2, $3 \
               where exists (select 1 from block_card where block_card.hash = $2) \
               on conflict (model, hash) do update set vector = excluded.vector";
    connection.put(sql, params![model, hash, vector])?;
    let sql = "update block_state set version = version + 1 \
               where holder in (select holder from block_card where hash = $1)";
    connection.put(sql, params![hash])
}

/// Keeps what a block is found by.
pub(crate) fn keep(connection: &Connection, key: &DefinitionKey, content: &str) -> Result<(), Error> {
    if key.kind != Kind::Block {
        return Ok(());
    }
    // What cannot be read as a block is found by its id.
    let card = parse_value(content).map(|block| Card::of(&block)).unwrap_or_default();
    let card = if card.name.is_empty() { Card { name: key.id.clone(), ..card } } else { card };
    let (text, purpose) = (card.text(), format!("{} {}", card.description, card.use_when));
    let hash = Hash::of(text.as_bytes()).to_string();
    let before = hash_of(connection, key)?;
    let sql = "insert into block_card (holder, id, name, purpose, tags, hash, content) values ($1, $2, $3, $4, $5, $6, $7) \
               on conflict (holder, id) do update set name = excluded.name, purpose = excluded.purpose, \
               tags = excluded.tags, hash = excluded.hash, content = excluded.content";
    let tags = card.tags.join(" ");
    connection.put(sql, params![&key.holder, &key.id, &card.name, &purpose, &tags, &hash, &text])?;
    settle(connection, key, before)
}

/// Takes away what a block was found by.
pub(crate) fn forget(connection: &Connection, key: &DefinitionKey) -> Result<(), Error> {
    if key.kind != Kind::Block {
        return Ok(());
    }
    let before = hash_of(connection, key)?;
    let sql = "delete from block_card where holder = $1 and id = $2";
    connection.put(sql, params![&key.holder, &key.id])?;
    settle(connection, key, before)
}

fn hash_of(connection: &Connection, key: &DefinitionKey) -> Result<Option<String>, Error> {
    let sql = "select hash from block_card where holder = $1 and id = $2";
    connection.first(sql, params![&key.holder, &key.id], |row| row.get(0))
}

/// Takes away vectors of a text that no block has any more, and says that the holder's blocks have changed.
fn settle(connection: &Connection, key: &DefinitionKey, before: Option<String>) -> Result<(), Error> {
    if let Some(hash) = before {
        let sql = "delete from embedding where hash = $1 and not exists \
                   (select 1 from block_card where block_card.hash = embedding.hash)";
        connection.put(sql, params![&hash])?;
    }
    let sql = "insert into block_state values ($1, 1) \
               on conflict (holder) do update set version = block_state.version + 1";
    connection.put(sql, params![&key.holder])
}

/// Keeps what blocks are found by that were there before anything could be found.
pub(crate) fn catch_up(connection: &Connection) -> Result<(), Error> {
    let sql = "select holder, id, content from definition where kind = $1 and not exists \
               (select 1 from block_card card where card.holder = definition.holder and card.id = definition.id)";
    let missing = connection.query(sql, params![Kind::Block.name()], |row| {
        Ok((DefinitionKey { holder: row.get(0)?, kind: Kind::Block, id: row.get(1)? }, row.get::<String>(2)?))
    })?;
    if missing.is_empty() {
        return Ok(());
    }
    let mut job: Job =
        Box::new(move |connection| missing.iter().try_for_each(|(key, content)| keep(connection, key, content)));
    connection.transact(&mut [&mut job])
}
