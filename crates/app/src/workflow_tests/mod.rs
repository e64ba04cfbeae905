//! Tests of workflows: files with inputs, responses and expectations, which run without models and without the network.

mod compare;
mod execute;
mod expectation;
pub mod file;
mod judge;
mod offline;
mod outcome;
mod record;
mod request_secrets;
mod responses;
mod shared_messages;
mod subject;
mod test_clock;
mod test_runs;
mod validity;

pub use execute::TestRunner;
pub use outcome::{SkippedQuestion, TestOutcome, TestProblem};
pub use record::record_test;
pub use subject::{TestSubject, path_between};
pub use validity::InvalidExpectation;
