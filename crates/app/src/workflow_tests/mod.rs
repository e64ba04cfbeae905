//! Tests of workflows: files with inputs, responses and expectations, which run without models and without the network.

mod compare;
mod execute;
mod expectation;
pub mod file;
mod header_secrets;
mod judge;
mod offline;
mod outcome;
mod record;
mod validity;

pub use execute::TestRunner;
pub use outcome::{SkippedQuestion, TestOutcome, TestProblem};
pub use record::record_test;
pub use validity::InvalidExpectation;
