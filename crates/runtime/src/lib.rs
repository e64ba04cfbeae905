//! The interpreter of plans, and what it needs: effect traits, the journal, the clock.
//!
//! Knows no format, no provider and no database. The only crate that spawns run tasks (`engine`).
#![warn(missing_docs)]

pub mod effects;
