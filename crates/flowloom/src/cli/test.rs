//! Arguments of `flowloom test`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct TestArgs {
    #[command(subcommand)]
    pub(crate) command: Option<TestCommand>,
    /// Tests, or folders with tests [default: the folder `tests` here, or that of the
    /// project]
    pub(crate) paths: Vec<PathBuf>,
    /// Write what happens now into the tests
    #[arg(long)]
    pub(crate) update: bool,
    /// Ask models where a request has changed or has no response
    #[arg(long)]
    pub(crate) live: bool,
    /// With --live: what all tests together may cost, for example `usd=0.10` or `tokens=5000`
    #[arg(long, value_name = "LIMITS", default_value = "usd=0.10", requires = "live")]
    pub(crate) budget: String,
    /// How the results are printed
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) report: TestReport,
}

/// How the results of tests are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TestReport {
    // The names say it all; a text for each would make the help three times as long.
    #[default]
    Text,
    Junit,
    Tap,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TestCommand {
    /// Write a test that expects what a run did
    Record(RecordTestArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RecordTestArgs {
    /// Run id, unique start or end of an id, or `last`
    pub(crate) run: String,
    /// File of the test, for example tests/review.json
    #[arg(long = "as", value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// File of the definition [default: the file that was run]
    #[arg(long, value_name = "FILE")]
    pub(crate) definition: Option<PathBuf>,
    /// Replace the test if it exists
    #[arg(long)]
    pub(crate) force: bool,
}
