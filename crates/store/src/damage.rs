//! [`Damage`]: what a check of the database reports.

use flowloom_core::id::RunId;

/// A part of the database that is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The damaged run; `None` if the damage is not in one run.
    pub run: Option<RunId>,
    /// The problem, as a sentence that names the run.
    pub problem: String,
}

/// Damages that a message lists; a broken disk has more than anyone reads.
const MAX_LISTED_DAMAGES: usize = 10;

impl Damage {
    /// The first few problems in one text, and how many more there are.
    pub(crate) fn join_problems(damages: &[Damage]) -> String {
        let listed: Vec<&str> = damages.iter().take(MAX_LISTED_DAMAGES).map(|damage| damage.problem.as_str()).collect();
        match damages.len().saturating_sub(listed.len()) {
            0 => listed.join("; "),
            more => format!("{}; and {more} more", listed.join("; ")),
        }
    }
}
