//! HTTP routes of definitions: create, change and delete workflows and the blocks, agents and tools that they share.

pub(crate) mod change;
pub(crate) mod check;
pub(crate) mod parts;
pub(crate) mod put;
pub(crate) mod sync;
pub(crate) mod upload;
pub(crate) mod workflows;
