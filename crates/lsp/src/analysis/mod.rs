//! The content of a document, and the texts that can be written at a position of it. Pure: texts go in, data comes out.

mod block_inputs;
pub mod completion;
mod completion_frontmatter;
mod completion_markdown;
pub mod definition;
pub mod elements;
pub mod field_reads;
pub mod hover;
pub mod index;
pub mod json_names;
pub mod json_place;
pub mod json_tree;
pub mod known;
pub mod lines;
pub mod mdx;
pub mod mdx_names;
mod member_chain;
pub mod names;
pub mod outline;
mod pipeline_order;
pub mod related;
pub mod rename;
pub mod roles;
pub mod schema;
pub mod templates;
pub mod tokens;
pub mod yaml;
