//! Steps that wait for a person, in a run or in its child runs, found by the path that the person gives.

use flowloom_core::path::Path;
use flowloom_core::render::shorten_text;
use flowloom_core::state::{OpenStep, RunState};

/// Why no step can be selected.
#[derive(Debug, thiserror::Error)]
pub enum NoOpenStep {
    /// Nothing waits.
    #[error("the run has no open {what}")]
    None {
        /// The kind of step requested: `question` or `uncertain effect`.
        what: &'static str,
    },
    /// An answer or a decision is stored but not applied yet.
    #[error("the run has no open {what}: a decision about {path} is stored but not applied yet")]
    Decided {
        /// The kind of step requested: `question` or `uncertain effect`.
        what: &'static str,
        /// The step about which was decided.
        path: Path,
    },
    /// Nothing waits at the path.
    #[error("the run has no such open {what}; expected one of: {}", list_places(open))]
    NotAt {
        /// The kind of step requested: `question` or `uncertain effect`.
        what: &'static str,
        /// The steps that wait.
        open: Vec<WaitingStep>,
    },
    /// Several steps wait, and no path was given.
    #[error("the run has several open {what}s; choose one by its path: {}", list_places(open))]
    Several {
        /// The kind of step requested: `question` or `uncertain effect`.
        what: &'static str,
        /// The steps that wait.
        open: Vec<WaitingStep>,
    },
}

/// A step that waits.
#[derive(Debug)]
pub struct WaitingStep {
    /// Its path.
    pub path: Path,
    /// The question; `None` for an uncertain effect.
    pub question: Option<String>,
}

impl WaitingStep {
    fn from_open(step: &OpenStep<'_>) -> WaitingStep {
        WaitingStep { path: step.path.clone(), question: step.question.map(|asked| asked.question.clone()) }
    }
}

/// Length of a question in an error message, in characters.
const MAX_SHOWN_QUESTION: usize = 80;

/// The paths, each with the start of its question.
fn list_places(open: &[WaitingStep]) -> String {
    let describe = |step: &WaitingStep| match &step.question {
        Some(question) => format!("{} ({})", step.path, shorten_question(question)),
        None => step.path.to_string(),
    };
    open.iter().map(describe).collect::<Vec<_>>().join(", ")
}

/// The first line of a question, as far as it fits into a message.
fn shorten_question(question: &str) -> String {
    let line = question.trim().lines().next().unwrap_or_default();
    let shown = shorten_text(line, MAX_SHOWN_QUESTION);
    let is_first_of_many = line.len() < question.trim().len();
    if is_first_of_many && shown == line { format!("{line} …") } else { shown }
}

/// The step that waits for an answer at `path`, or the only one. Fails if no question is open, if none is open at the
/// path, or if there are several and no path.
pub fn select_question<'a>(state: &'a RunState, path: Option<&str>) -> Result<OpenStep<'a>, NoOpenStep> {
    select_step(state, path, "question", |step| step.question.is_some())
}

/// The uncertain effect at `path`. A block or function has the path of the only uncertain effect in it, too. Fails if
/// there is none, or several.
pub fn select_uncertain<'a>(state: &'a RunState, path: &str) -> Result<OpenStep<'a>, NoOpenStep> {
    select_step(state, Some(path), "uncertain effect", |step| step.question.is_none())
}

fn select_step<'a>(
    state: &'a RunState,
    path: Option<&str>,
    what: &'static str,
    is_open: impl Fn(&OpenStep<'_>) -> bool,
) -> Result<OpenStep<'a>, NoOpenStep> {
    let open: Vec<OpenStep<'_>> = state.open_steps().filter(|step| is_open(step)).collect();
    let places = || open.iter().map(WaitingStep::from_open).collect();
    // Without a path, an open step is meant if there is one.
    let decided = match path {
        Some(path) => state.decided_steps().find(|decided| decided.as_str() == path),
        None => state.decided_steps().find(|_| open.is_empty()),
    };
    if let Some(decided) = decided {
        return Err(NoOpenStep::Decided { what, path: decided.clone() });
    }
    match (path, open.as_slice()) {
        (_, []) => Err(NoOpenStep::None { what }),
        (None, [only]) => Ok(only.clone()),
        (None, _) => Err(NoOpenStep::Several { what, open: places() }),
        (Some(path), _) => {
            let exact = open.iter().find(|step| step.path.as_str() == path);
            let within = || {
                let mut within = open.iter().filter(|step| step.path.ancestors().any(|above| above == path));
                within.next().filter(|_| within.next().is_none())
            };
            exact.or_else(within).cloned().ok_or_else(|| NoOpenStep::NotAt { what, open: places() })
        }
    }
}
