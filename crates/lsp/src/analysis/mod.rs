//! What a document contains and what can be written at a position of it. Pure: texts go in, data comes out.

pub mod json_tree;
pub mod lines;
pub mod related;
