//! Embeddings of blocks, cached in memory until a block changes, and their similarity to a query.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::BlockOwners;
use crate::db::{DbConnection, params};
use crate::error::StoreError;
use crate::users::BUILTIN_USER;

/// Maximum number of tables in memory; the one loaded first is removed first.
const MAX_TABLES: usize = 64;
/// Number of partial sums, so that the compiler emits vector instructions.
const SUM_LANES: usize = 16;

/// Embeddings of users' blocks, by user and model.
#[derive(Default)]
pub(crate) struct VectorCache {
    tables: Mutex<Vec<Arc<VectorTable>>>,
}

/// Embeddings of one user's blocks by one model.
struct VectorTable {
    user: String,
    model: String,
    /// Version of the user's blocks that the table was loaded at.
    version: u64,
    rows: Vec<(String, Vec<f32>)>,
    by_id: HashMap<String, usize>,
}

/// Similarity of each block to a query.
pub(crate) struct Similarities {
    tables: Vec<(Arc<VectorTable>, Vec<f32>)>,
}

impl VectorCache {
    /// Compares a vector with those of a user's blocks, of shared blocks and of built-in ones.
    pub(crate) fn compare_blocks(
        &self,
        connection: &DbConnection,
        owners: BlockOwners<'_>,
        model: &str,
        vector: &[f32],
    ) -> Result<Similarities, StoreError> {
        let sql = "select user_id, version from block_state where user_id = $1 or user_id = $2 or user_id = $3";
        let states = connection.query_rows(sql, params![owners.user, owners.everyone, BUILTIN_USER], |row| {
            Ok((row.get(0)?, row.get_count(1)?))
        })?;
        let vector: Vec<f32> = to_unit(vector).collect();
        let mut states: Vec<(String, u64)> = states;
        // Of several blocks with one id, the first counts.
        states.sort_by_key(|(whose, _)| (whose != owners.user, whose == BUILTIN_USER));
        let mut tables: Vec<Arc<VectorTable>> = Vec::new();
        for (user, version) in states {
            tables.push(self.load_table(connection, &user, model, version)?);
        }
        let measured = tables.iter().enumerate().map(|(place, table)| {
            let is_hidden = |id: &String| tables[..place].iter().any(|other| other.by_id.contains_key(id));
            let near =
                table.rows.iter().map(|(id, row)| if is_hidden(id) { f32::NAN } else { dot_product(row, &vector) });
            (table.clone(), near.collect())
        });
        Ok(Similarities { tables: measured.collect() })
    }

    fn load_table(
        &self,
        connection: &DbConnection,
        user: &str,
        model: &str,
        version: u64,
    ) -> Result<Arc<VectorTable>, StoreError> {
        let lock = || self.tables.lock();
        let is_it = |table: &Arc<VectorTable>| table.user == user && table.model == model;
        let cached = lock().iter().find(|table| is_it(table)).cloned();
        if let Some(table) = cached.filter(|table| table.version == version) {
            return Ok(table);
        }
        let table = Arc::new(VectorTable::read_blocks(connection, user, model, version)?);
        let mut tables = lock();
        tables.retain(|table| !is_it(table));
        if tables.len() == MAX_TABLES {
            tables.remove(0);
        }
        tables.push(table.clone());
        Ok(table)
    }
}

impl VectorTable {
    /// Reads all blocks of a user. A change during the read has a later version, so the table is read again.
    fn read_blocks(
        connection: &DbConnection,
        user: &str,
        model: &str,
        version: u64,
    ) -> Result<VectorTable, StoreError> {
        let sql = "select card.id, embedding.vector from block_card card \
                   left join embedding on embedding.model = $1 and embedding.hash = card.hash \
                   where card.user_id = $2 order by card.id";
        let rows = connection.query_rows(sql, params![model, user], |row| {
            let bytes: Option<Vec<u8>> = row.get(1)?;
            Ok((row.get::<String>(0)?, bytes.map(|bytes| decode_vector(&bytes)).unwrap_or_default()))
        })?;
        let by_id = rows.iter().enumerate().map(|(place, (id, _))| (id.clone(), place)).collect();
        Ok(VectorTable { user: user.to_owned(), model: model.to_owned(), version, rows, by_id })
    }
}

impl Similarities {
    /// Similarity of a block; `None` if it has no embedding, or one that cannot be compared.
    pub(super) fn similarity_of(&self, user: &str, id: &str) -> Option<f32> {
        let (table, near) = self.tables.iter().find(|(table, _)| table.user == user)?;
        near.get(*table.by_id.get(id)?).copied().filter(|near| near.is_finite())
    }

    /// The most similar blocks, most similar first.
    pub(super) fn nearest_blocks(&self, most: usize) -> Vec<super::BlockName> {
        let mut all: Vec<(f32, usize, usize)> = Vec::new();
        for (number, (_, near)) in self.tables.iter().enumerate() {
            let measured = near.iter().enumerate().filter(|(_, near)| near.is_finite());
            all.extend(measured.map(|(row, near)| (*near, number, row)));
        }
        let nearer =
            |a: &(f32, usize, usize), b: &(f32, usize, usize)| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2)));
        if all.len() > most {
            all.select_nth_unstable_by(most, nearer);
            all.truncate(most);
        }
        all.sort_unstable_by(nearer);
        let name = |(_, number, row): (f32, usize, usize)| {
            let table = &self.tables[number].0;
            (table.user.clone(), table.rows[row].0.clone())
        };
        all.into_iter().map(name).collect()
    }
}

/// Dot product of two vectors; NaN if their lengths differ or are zero.
fn dot_product(left: &[f32], right: &[f32]) -> f32 {
    if left.len() != right.len() || left.is_empty() {
        return f32::NAN;
    }
    let mut sums = [0f32; SUM_LANES];
    let (left, left_rest) = left.as_chunks::<SUM_LANES>();
    let (right, right_rest) = right.as_chunks::<SUM_LANES>();
    for (left, right) in left.iter().zip(right) {
        for lane in 0..SUM_LANES {
            sums[lane] += left[lane] * right[lane];
        }
    }
    let rest: f32 = left_rest.iter().zip(right_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

/// The vector of length one in the same direction. Dot products of such vectors are cosines.
fn to_unit(vector: &[f32]) -> impl Iterator<Item = f32> {
    let length = dot_product(vector, vector).sqrt();
    let scale = if length.is_normal() { 1.0 / length } else { 0.0 };
    vector.iter().map(move |value| value * scale)
}

/// A vector in its stored form.
pub(super) fn encode_vector(vector: &[f32]) -> Vec<u8> {
    to_unit(vector).flat_map(f32::to_le_bytes).collect()
}

fn decode_vector(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
}
