//! The tree of a run: its child runs, and theirs. Each child run has a number in its tree, so that counting them does not get
//! slower with their number.

use flowloom_core::id::RunId;

use crate::db::{DbConnection, params};
use crate::error::StoreError;

/// Where a child run is in its tree.
pub(crate) struct TreePosition {
    /// The id of the outermost run.
    pub(crate) root: String,
    /// The number of child runs of the tree, with this one.
    pub(crate) number: u64,
}

/// The position of the next child run of a tree, of which `member` is a part.
pub(crate) fn find_next_position(db: &DbConnection, member: RunId) -> Result<TreePosition, StoreError> {
    let id = member.to_string();
    let sql = "select coalesce(root, id) from run where id = $1";
    let root = db.query_first(sql, params![&id], |row| row.get::<String>(0))?.unwrap_or(id);
    let sql = "select coalesce(max(tree_number), 0) from run where root = $1";
    let last = db.query_first(sql, params![&root], |row| row.get_count(0))?.unwrap_or_default();
    Ok(TreePosition { root, number: last + 1 })
}
