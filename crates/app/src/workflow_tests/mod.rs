//! Tests of workflows: files with inputs, responses and expectations, which run without models and without the network.

mod execute;
mod expectation;
pub mod file;
mod judge;
mod offline;
mod record;

pub use execute::{TestOutcome, TestProblem, TestRunner};
pub use record::record_test;
