//! The results inside of the blocks of a Markdown workflow, where they are read as fields of the block's own result:
//! `answer.letter`, `answer['letter']`.

use std::collections::{HashMap, HashSet};

use flowloom_core::diagnostic::Span;

use super::names::{Name, NameKind, Role};

/// The reads of fields in a file, and the results that have fields.
#[derive(Clone, Debug, Default)]
pub struct FieldReads {
    /// The names that are read, with their fields.
    pub reads: Vec<ReadPath>,
    /// The results of blocks.
    pub blocks: Vec<BlockResult>,
}

/// A name that is read, with its fields as far as they are written.
#[derive(Clone, Debug)]
pub struct ReadPath {
    /// The name.
    pub name: String,
    /// The scope in which the name is looked up.
    pub scope: usize,
    /// Its field, the field of that one, and so on, with their places.
    pub fields: Vec<(String, Span)>,
}

/// The result of a block.
#[derive(Clone, Debug)]
pub struct BlockResult {
    /// Its name.
    pub name: String,
    /// The scope in which the name is declared.
    pub scope: usize,
    /// The scope of the block's content.
    pub inner: usize,
    /// Whether the block is repeated.
    pub is_loop: bool,
}

/// The results of all blocks of a definition.
#[derive(Clone, Debug, Default)]
pub struct BlockResults {
    /// The blocks by the scope of their content.
    by_inner: HashMap<usize, BlockResult>,
    /// The scope of the content of a block, by the scope and the name of its result. The first declaration counts.
    inner_scopes: HashMap<(usize, String), usize>,
    /// The scopes of the blocks whose results are read as a whole, or by a field that is computed.
    read_whole: HashSet<usize>,
}

/// A reason for which the places that read a result cannot all be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HiddenReads {
    /// It is in a block that is repeated.
    Loop,
    /// This result, of a block around it, is read as a whole.
    Whole(String),
}

impl BlockResults {
    /// The results of blocks that the files of a definition declare.
    pub fn new(blocks: impl Iterator<Item = BlockResult>) -> BlockResults {
        let mut results = BlockResults::default();
        for block in blocks {
            results.inner_scopes.entry((block.scope, block.name.clone())).or_insert(block.inner);
            results.by_inner.insert(block.inner, block);
        }
        results
    }

    /// The names of results inside of conditions that a read consists of.
    pub fn find_names(&mut self, read: &ReadPath) -> Vec<Name> {
        let mut result = (read.scope, read.name.clone());
        let mut fields = read.fields.iter();
        let mut found = Vec::new();
        while let Some(inner) = self.inner_scopes.get(&result).copied() {
            // The fields of a loop's result are those of lists.
            let field = fields.next().filter(|_| !self.by_inner.get(&inner).is_some_and(|block| block.is_loop));
            let Some((field, span)) = field else {
                self.read_whole.insert(inner);
                break;
            };
            found.push(Name { scope: inner, ..Name::new(NameKind::Variable, field, *span, Role::Read) });
            result = (inner, field.clone());
        }
        found
    }

    /// Why the places that read a result in `scope` cannot all be found.
    pub fn find_hidden_reads(&self, mut scope: usize) -> Option<HiddenReads> {
        while let Some(block) = self.by_inner.get(&scope) {
            if block.is_loop {
                return Some(HiddenReads::Loop);
            }
            if self.read_whole.contains(&block.inner) {
                return Some(HiddenReads::Whole(block.name.clone()));
            }
            scope = block.scope;
        }
        None
    }
}
