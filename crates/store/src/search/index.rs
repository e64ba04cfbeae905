//! Search index of blocks: their words, their text, and the embedding of the text. The index is written in the
//! transaction that changes the block; embeddings are added later, when they have been computed.

use std::collections::BTreeMap;

use flowloom_core::block::BlockCard;
use flowloom_core::hash::Hash;
use flowloom_core::json::parse_value;

use crate::db::{DbConnection, WriteJob, params};
use crate::definitions::{DefinitionKey, DefinitionKind};
use crate::error::StoreError;
use crate::store::Store;
use crate::users::BUILTIN_USER;

/// SQL condition: the text of `card` has no embedding by the model `$1`.
const LACKS_EMBEDDING_SQL: &str =
    "not exists (select 1 from embedding where embedding.model = $1 and embedding.hash = card.hash)";

/// A text of blocks that has no embedding yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnembeddedText {
    /// Hash of the text, the key of its embedding.
    pub hash: String,
    /// The text.
    pub text: String,
}

impl Store {
    /// Texts of blocks without an embedding by this model, at most `most`. Fails if the database cannot be read.
    pub fn list_unembedded(&self, model: &str, most: usize) -> Result<Vec<UnembeddedText>, StoreError> {
        let sql = format!(
            "select distinct card.hash, card.content from block_card card where {LACKS_EMBEDDING_SQL} order by card.hash limit $2"
        );
        let read = |row: &crate::db::DbRow<'_>| Ok(UnembeddedText { hash: row.get(0)?, text: row.get(1)? });
        self.read_long_with(|db| db.query_rows(&sql, params![model, most as u64], read))
    }

    /// Whether a stored block of a user has no embedding by this model. Fails if the database cannot be read.
    pub fn lacks_embedding(&self, model: &str) -> Result<bool, StoreError> {
        let sql =
            format!("select card.hash from block_card card where {LACKS_EMBEDDING_SQL} and card.user_id <> $2 limit 1");
        let found =
            self.read_long_with(|db| db.query_first(&sql, params![model, BUILTIN_USER], |row| row.get::<String>(0)))?;
        Ok(found.is_some())
    }

    /// Indexes the built-in blocks, given by id and content, and removes those of an earlier version of the program.
    /// Writes nothing if they are unchanged. Fails if the database cannot be read or written.
    pub async fn index_builtin_blocks(&self, blocks: Vec<(String, String)>) -> Result<(), StoreError> {
        let entries: BTreeMap<String, IndexEntry> =
            blocks.iter().map(|(id, content)| (id.clone(), IndexEntry::from_block(id, content))).collect();
        if self.read_long_with(read_builtin_entries)? == entries {
            return Ok(());
        }
        let key =
            |id: &str| DefinitionKey { user: BUILTIN_USER.to_owned(), kind: DefinitionKind::Block, id: id.to_owned() };
        let job = move |connection: &DbConnection| {
            connection.serialize_changes("definitions")?;
            let mut gone = read_builtin_entries(connection)?.into_keys().filter(|id| !entries.contains_key(id));
            gone.try_for_each(|id| remove_block(connection, &key(&id)))?;
            blocks.iter().try_for_each(|(id, content)| index_block(connection, &key(id), content))
        };
        self.writer.submit_job(Box::new(job)).await
    }

    /// Stores embeddings by the hash of their text. Embeddings of blocks that were deleted or changed meanwhile are
    /// dropped. Fails if the database cannot be written.
    pub async fn store_embeddings(&self, model: &str, vectors: Vec<(String, Vec<f32>)>) -> Result<(), StoreError> {
        let model = model.to_owned();
        let vectors: Vec<(String, Vec<u8>)> =
            vectors.into_iter().map(|(hash, vector)| (hash, super::vectors::encode_vector(&vector))).collect();
        let job = move |connection: &DbConnection| {
            connection.serialize_changes("definitions")?;
            vectors.iter().try_for_each(|(hash, vector)| store_vector(connection, &model, hash, vector))
        };
        self.writer.submit_job(Box::new(job)).await
    }
}

/// Index entries of the built-in blocks, by id.
fn read_builtin_entries(connection: &DbConnection) -> Result<BTreeMap<String, IndexEntry>, StoreError> {
    let sql = "select id, name, purpose, tags, hash, content from block_card where user_id = $1";
    let rows = connection.query_rows(sql, params![BUILTIN_USER], |row| {
        let entry = IndexEntry {
            name: row.get(1)?,
            purpose: row.get(2)?,
            tags: row.get(3)?,
            hash: row.get(4)?,
            text: row.get(5)?,
        };
        Ok((row.get::<String>(0)?, entry))
    })?;
    Ok(rows.into_iter().collect())
}

fn store_vector(connection: &DbConnection, model: &str, hash: &str, vector: &[u8]) -> Result<(), StoreError> {
    let sql = "insert into embedding (model, hash, vector) select $1, $2, $3 \
               where exists (select 1 from block_card where block_card.hash = $2) \
               on conflict (model, hash) do update set vector = excluded.vector";
    connection.execute_unchecked(sql, params![model, hash, vector])?;
    let sql = "update block_state set version = version + 1 \
               where user_id in (select user_id from block_card where hash = $1)";
    connection.execute_unchecked(sql, params![hash])
}

/// Index entry of a block.
#[derive(PartialEq)]
struct IndexEntry {
    name: String,
    purpose: String,
    tags: String,
    hash: String,
    text: String,
}

impl IndexEntry {
    /// Builds the entry. A content that is not a valid block is indexed by its id.
    fn from_block(id: &str, content: &str) -> IndexEntry {
        let card = parse_value(content).map(|block| BlockCard::from_definition(&block)).unwrap_or_default();
        let card = if card.name.is_empty() { BlockCard { name: id.to_owned(), ..card } } else { card };
        let text = card.embedding_text();
        let purpose = format!("{} {}", card.description, card.use_when);
        let hash = Hash::of_bytes(text.as_bytes()).to_string();
        IndexEntry { name: card.name, purpose, tags: card.tags.join(" "), hash, text }
    }
}

/// Indexes a block.
pub(crate) fn index_block(connection: &DbConnection, key: &DefinitionKey, content: &str) -> Result<(), StoreError> {
    if key.kind != DefinitionKind::Block {
        return Ok(());
    }
    let IndexEntry { name, purpose, tags, hash, text } = IndexEntry::from_block(&key.id, content);
    let before = read_text_hash(connection, key)?;
    let sql = "insert into block_card (user_id, id, name, purpose, tags, hash, content) values ($1, $2, $3, $4, $5, $6, $7) \
               on conflict (user_id, id) do update set name = excluded.name, purpose = excluded.purpose, \
               tags = excluded.tags, hash = excluded.hash, content = excluded.content";
    connection.execute_unchecked(sql, params![&key.user, &key.id, &name, &purpose, &tags, &hash, &text])?;
    finish_change(connection, key, before)
}

/// Removes a block from the index.
pub(crate) fn remove_block(connection: &DbConnection, key: &DefinitionKey) -> Result<(), StoreError> {
    if key.kind != DefinitionKind::Block {
        return Ok(());
    }
    let before = read_text_hash(connection, key)?;
    let sql = "delete from block_card where user_id = $1 and id = $2";
    connection.execute_unchecked(sql, params![&key.user, &key.id])?;
    finish_change(connection, key, before)
}

fn read_text_hash(connection: &DbConnection, key: &DefinitionKey) -> Result<Option<String>, StoreError> {
    let sql = "select hash from block_card where user_id = $1 and id = $2";
    connection.query_first(sql, params![&key.user, &key.id], |row| row.get(0))
}

/// Deletes embeddings of a text that no block has any more, and marks the user's blocks as changed.
fn finish_change(connection: &DbConnection, key: &DefinitionKey, before: Option<String>) -> Result<(), StoreError> {
    if let Some(hash) = before {
        let sql = "delete from embedding where hash = $1 and not exists \
                   (select 1 from block_card where block_card.hash = embedding.hash)";
        connection.execute_unchecked(sql, params![&hash])?;
    }
    let sql = "insert into block_state values ($1, 1) \
               on conflict (user_id) do update set version = block_state.version + 1";
    connection.execute_unchecked(sql, params![&key.user])
}

/// Indexes blocks that were stored before the index existed.
pub(crate) fn index_missing_blocks(connection: &DbConnection) -> Result<(), StoreError> {
    let sql = "select user_id, id, content from definition where kind = $1 and not exists \
               (select 1 from block_card card where card.user_id = definition.user_id and card.id = definition.id)";
    let missing = connection.query_rows(sql, params![DefinitionKind::Block.name()], |row| {
        Ok((DefinitionKey { user: row.get(0)?, kind: DefinitionKind::Block, id: row.get(1)? }, row.get::<String>(2)?))
    })?;
    if missing.is_empty() {
        return Ok(());
    }
    let mut job: WriteJob =
        Box::new(move |connection| missing.iter().try_for_each(|(key, content)| index_block(connection, key, content)));
    connection.run_transaction(&mut [&mut job])
}
