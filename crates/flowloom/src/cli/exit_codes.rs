//! The exit codes of the commands whose result a script tests, as their help and their man pages list them.

/// An exit code and its meaning for the result of a command.
pub(super) struct ExitCode {
    pub(super) code: u8,
    pub(super) meaning: &'static str,
}

/// The exit codes of a command; `path` is the command without `flowloom`, such as `eval author`.
pub(super) fn find_exit_codes(path: &str) -> Option<impl Iterator<Item = &'static ExitCode>> {
    let (_, codes) = EXIT_CODES.iter().find(|(commands, _)| commands.contains(&path))?;
    let can_be_stored = COMMANDS_TO_RUNS.contains(&path);
    Some(codes.iter().filter(move |row| can_be_stored || row.code != STORED))
}

const fn new_code(code: u8, meaning: &'static str) -> ExitCode {
    ExitCode { code, meaning }
}

/// The exit code of a command to a run that was not applied in time.
const STORED: u8 = 7;

/// Commands that send a command to a run.
const COMMANDS_TO_RUNS: [&str; 4] = ["answer", "cancel", "resolve", "retry"];

/// The exit codes by the commands that share them.
const EXIT_CODES: &[(&[&str], &[ExitCode])] = &[
    (&["run", "agent", "resume", "retry", "fork", "answer", "resolve"], OF_RUNS),
    (
        &["cancel"],
        &[
            new_code(0, "the run is cancelled"),
            new_code(1, "the database is unavailable"),
            new_code(2, "there is no such run, or it has ended"),
            new_code(STORED, "the cancellation is stored but was not applied in time"),
        ],
    ),
    (
        &["replay"],
        &[
            new_code(0, "the run takes the same course"),
            new_code(1, "the run cannot be read"),
            new_code(2, "the command is invalid"),
            new_code(3, "the run takes another course"),
        ],
    ),
    (
        &["test"],
        &[
            new_code(0, "every test passed"),
            new_code(2, "a file is not a test, or a definition is invalid"),
            new_code(3, "a test failed"),
        ],
    ),
    (
        &["plan"],
        &[
            new_code(0, "the definition is valid, and no maximum is exceeded"),
            new_code(2, "the command or the definition is invalid"),
            new_code(5, "the worst case exceeds a maximum"),
        ],
    ),
    (
        &["diff"],
        &[
            new_code(0, "there is no difference"),
            new_code(1, "there is a difference"),
            new_code(2, "a run or a file cannot be read"),
        ],
    ),
    (
        &["check"],
        &[new_code(0, "every definition is valid"), new_code(2, "a definition has errors, or cannot be read")],
    ),
    (
        &["fmt"],
        &[
            new_code(0, "all files are formatted"),
            new_code(1, "with --check or --diff: a file is not formatted"),
            new_code(2, "a file cannot be read or parsed"),
        ],
    ),
    (
        &["convert"],
        &[
            new_code(0, "the definition is converted"),
            new_code(1, "nothing was written, because something would be lost"),
            new_code(2, "the command or the definition is invalid"),
        ],
    ),
    (
        &["new"],
        &[
            new_code(0, "there is a pipeline"),
            new_code(1, "there is none"),
            new_code(2, "the command is invalid, or a question has no answer"),
            new_code(5, "the budget is exhausted"),
            new_code(130, "the command was interrupted"),
        ],
    ),
    (
        &["eval author"],
        &[
            new_code(0, "all tasks passed"),
            new_code(1, "a task failed"),
            new_code(2, "no task could be tried"),
            new_code(130, "the command was interrupted"),
        ],
    ),
];

/// The exit codes of commands that drive a run.
const OF_RUNS: &[ExitCode] = &[
    new_code(0, "the run succeeded"),
    new_code(1, "the run failed, or the database is unavailable"),
    new_code(2, "the command or the definition is invalid"),
    new_code(3, "the journal of the run does not match its definition"),
    new_code(4, "the run waits for a person"),
    new_code(5, "the budget is exhausted"),
    new_code(6, "the run is uncertain: `flowloom resolve` decides"),
    new_code(STORED, "the command is stored but was not applied in time"),
    new_code(124, "the run reached its time limit"),
    new_code(130, "the run was interrupted or cancelled"),
];

#[cfg(test)]
mod tests {
    use flowloom_core::status::STATUS_TABLE;

    use super::*;

    #[test]
    fn the_exit_code_of_every_status_is_listed() {
        for row in &STATUS_TABLE {
            assert!(OF_RUNS.iter().any(|listed| listed.code == row.exit_code), "{} is not listed", row.name);
        }
    }
}
