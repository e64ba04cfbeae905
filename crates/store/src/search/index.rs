//! Search index of blocks: their words, their text, and the embedding of the text. The index is written in the
//! transaction that changes the block; embeddings are added later, when they have been computed.

use std::collections::BTreeMap;

use flowloom_core::block::Card;
use flowloom_core::error::StepError;
use flowloom_core::hash::Hash;
use flowloom_core::json::parse_value;

use super::BROUGHT;
use crate::db::{Connection, Error, Job, params};
use crate::{DefinitionKey, Kind, Store};

/// SQL condition: the text of `card` has no embedding by the model `$1`.
const LACKS: &str = "not exists (select 1 from embedding where embedding.model = $1 and embedding.hash = card.hash)";

/// A text of blocks that has no embedding yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unembedded {
    /// Hash of the text, the key of its embedding.
    pub hash: String,
    /// The text.
    pub text: String,
}

impl Store {
    /// Texts of blocks without an embedding by this model, at most `most`.
    pub fn unembedded(&self, model: &str, most: usize) -> Result<Vec<Unembedded>, StepError> {
        let sql = format!(
            "select distinct card.hash, card.content from block_card card where {LACKS} order by card.hash limit $2"
        );
        let read = |row: &crate::db::Row<'_>| Ok(Unembedded { hash: row.get(0)?, text: row.get(1)? });
        self.read_with(|db| db.query(&sql, params![model, most as u64], read))
    }

    /// Whether a stored block of a user has no embedding by this model.
    pub fn lacks_embedding(&self, model: &str) -> Result<bool, StepError> {
        let sql = format!("select card.hash from block_card card where {LACKS} and card.holder <> $2 limit 1");
        let found = self.read_with(|db| db.first(&sql, params![model, BROUGHT], |row| row.get::<String>(0)))?;
        Ok(found.is_some())
    }

    /// Indexes the built-in blocks, given by id and content, and removes those of an earlier version of the program.
    /// Writes nothing if they are unchanged.
    pub async fn bring_blocks(&self, blocks: Vec<(String, String)>) -> Result<(), StepError> {
        let entries: BTreeMap<String, Entry> =
            blocks.iter().map(|(id, content)| (id.clone(), Entry::of(id, content))).collect();
        if self.read_with(brought)? == entries {
            return Ok(());
        }
        let key = |id: &str| DefinitionKey { holder: BROUGHT.to_owned(), kind: Kind::Block, id: id.to_owned() };
        let job = move |connection: &Connection| {
            connection.one_at_a_time("definitions")?;
            let mut gone = brought(connection)?.into_keys().filter(|id| !entries.contains_key(id));
            gone.try_for_each(|id| forget(connection, &key(&id)))?;
            blocks.iter().try_for_each(|(id, content)| keep(connection, &key(id), content))
        };
        self.writer.submit(Box::new(job)).await
    }

    /// Stores embeddings by the hash of their text. Embeddings of blocks that were deleted or changed meanwhile are
    /// dropped.
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

/// Index entries of the built-in blocks, by id.
fn brought(connection: &Connection) -> Result<BTreeMap<String, Entry>, Error> {
    let sql = "select id, name, purpose, tags, hash, content from block_card where holder = $1";
    let rows = connection.query(sql, params![BROUGHT], |row| {
        let entry =
            Entry { name: row.get(1)?, purpose: row.get(2)?, tags: row.get(3)?, hash: row.get(4)?, text: row.get(5)? };
        Ok((row.get::<String>(0)?, entry))
    })?;
    Ok(rows.into_iter().collect())
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

/// Index entry of a block.
#[derive(PartialEq)]
struct Entry {
    name: String,
    purpose: String,
    tags: String,
    hash: String,
    text: String,
}

impl Entry {
    /// Builds the entry. A content that is not a valid block is indexed by its id.
    fn of(id: &str, content: &str) -> Entry {
        let card = parse_value(content).map(|block| Card::of(&block)).unwrap_or_default();
        let card = if card.name.is_empty() { Card { name: id.to_owned(), ..card } } else { card };
        let text = card.text();
        let purpose = format!("{} {}", card.description, card.use_when);
        let hash = Hash::of(text.as_bytes()).to_string();
        Entry { name: card.name, purpose, tags: card.tags.join(" "), hash, text }
    }
}

/// Indexes a block.
pub(crate) fn keep(connection: &Connection, key: &DefinitionKey, content: &str) -> Result<(), Error> {
    if key.kind != Kind::Block {
        return Ok(());
    }
    let Entry { name, purpose, tags, hash, text } = Entry::of(&key.id, content);
    let before = hash_of(connection, key)?;
    let sql = "insert into block_card (holder, id, name, purpose, tags, hash, content) values ($1, $2, $3, $4, $5, $6, $7) \
               on conflict (holder, id) do update set name = excluded.name, purpose = excluded.purpose, \
               tags = excluded.tags, hash = excluded.hash, content = excluded.content";
    connection.put(sql, params![&key.holder, &key.id, &name, &purpose, &tags, &hash, &text])?;
    settle(connection, key, before)
}

/// Removes a block from the index.
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

/// Deletes embeddings of a text that no block has any more, and marks the user's blocks as changed.
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

/// Indexes blocks that were stored before the index existed.
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
