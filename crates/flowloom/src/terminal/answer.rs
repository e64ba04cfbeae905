//! The answer of a run while it is written: its text streams to stdout. Status stays on stderr, so the two never share a
//! line: reports that arrive meanwhile are held back until the text has ended.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;

use flowloom_core::path::Path;
use flowloom_core::plan::{Composite, Plan, StepKind};
use flowloom_core::value::Value;
use flowloom_formats::{AnswerSource, find_answer_source};
use parking_lot::Mutex;

use super::width::stdout_columns;
use super::word_wrap::WordWrap;
use crate::style::{Style, paint_text};

/// The text that was streamed last. The command that prints the result asks for it, so that nothing is printed twice.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamedText(Arc<Mutex<String>>);

impl StreamedText {
    /// Whether stdout shows exactly this output already.
    pub(crate) fn is_shown(&self, output: &str) -> bool {
        let text = self.0.lock();
        !text.is_empty() && text.trim() == output.trim()
    }

    fn replace(&self, text: &str) {
        text.clone_into(&mut self.0.lock());
    }

    fn append(&self, text: &str) {
        self.0.lock().push_str(text);
    }
}

/// The steps whose text is the answer.
enum AnswerSteps {
    /// One step, known before the run.
    Single(AnswerSource),
    /// Every turn of a conversation, with the names of its agents by their keys. One agent needs no name.
    Turns(Vec<(String, String)>),
}

/// Writes the answer of a run to stdout as it arrives.
pub(crate) struct AnswerStream {
    steps: AnswerSteps,
    /// The attempt that writes.
    writer: Option<(Path, u32)>,
    ends_line: bool,
    wrap: WordWrap,
    held: Vec<String>,
    streamed: StreamedText,
}

impl AnswerStream {
    /// The stream of a run of `plan` with these inputs; `None` if stdout is no terminal or the answer is known only when
    /// the run has ended.
    pub(crate) fn open(plan: &Plan, inputs: &Value, streamed: StreamedText) -> Option<AnswerStream> {
        let columns = stdout_columns().filter(|_| std::io::stdout().is_terminal())?;
        let steps = match find_answer_source(plan, inputs) {
            Some(source) => AnswerSteps::Single(source),
            None if plan.thread.is_some() => AnswerSteps::Turns(list_agents(plan)),
            None => return None,
        };
        Some(AnswerStream {
            steps,
            writer: None,
            ends_line: true,
            wrap: WordWrap::new(columns),
            held: Vec::new(),
            streamed,
        })
    }

    /// Whether the text of a step is the answer.
    pub(crate) fn accepts(&self, path: &Path) -> bool {
        match &self.steps {
            AnswerSteps::Single(source) => source.path == *path,
            AnswerSteps::Turns(_) => is_turn(path),
        }
    }

    /// Whether an answer has begun and not ended.
    pub(crate) fn is_writing(&self) -> bool {
        self.writer.is_some()
    }

    /// Whether this step writes the answer.
    pub(crate) fn is_written_by(&self, path: &Path) -> bool {
        self.writer.as_ref().is_some_and(|(writer, _)| writer == path)
    }

    /// Writes a piece of the answer. A further attempt starts again on a line of its own.
    pub(crate) fn write(&mut self, path: &Path, attempt: u32, text: &str) {
        let writer = (path.clone(), attempt);
        if self.writer.as_ref() != Some(&writer) {
            // Models often begin with a blank or an empty line.
            if text.trim().is_empty() {
                return;
            }
            self.end_line();
            self.writer = Some(writer);
            self.start(path);
            self.print(text.trim_start());
            return;
        }
        self.print(text);
    }

    /// Prints the text before the output of a step: the start of the output, or who speaks.
    fn start(&mut self, path: &Path) {
        self.streamed.replace("");
        match &self.steps {
            AnswerSteps::Single(source) => {
                let before = source.before.clone();
                self.print(&before);
            }
            AnswerSteps::Turns(agents) => {
                let key = path.as_str().trim_start_matches('/').split(['/', '#', '[']).next().unwrap_or_default();
                if let Some((_, name)) = agents.iter().find(|(agent, _)| agent == key) {
                    eprintln!("{}", paint_text(Style::Heading, name));
                }
            }
        }
    }

    fn print(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let wrapped = self.wrap.push(text);
        print!("{wrapped}");
        // The rest of the answer follows even if the terminal does not take this piece now.
        let _ = std::io::stdout().flush();
        self.ends_line = text.ends_with('\n');
        self.streamed.append(text);
    }

    fn end_line(&mut self) {
        let rest = self.wrap.finish();
        print!("{rest}");
        if !std::mem::replace(&mut self.ends_line, true) {
            println!();
            self.wrap.push("\n");
        }
    }

    /// Holds a line of status until the answer has ended.
    pub(crate) fn hold_line(&mut self, line: String) {
        self.held.push(line);
    }

    /// Ends the answer. Returns the lines that were held.
    pub(crate) fn end(&mut self) -> Vec<String> {
        self.end_line();
        self.writer = None;
        std::mem::take(&mut self.held)
    }
}

/// Whether a path is that of a turn: an answer in a conversation.
fn is_turn(path: &Path) -> bool {
    path.as_str().rsplit('/').next().is_some_and(|segment| segment.starts_with("turn~"))
}

/// The keys and the names of the agents of a graph with several ones.
fn list_agents(plan: &Plan) -> Vec<(String, String)> {
    let StepKind::Composite(Composite::Machine(machine)) = &plan.root.kind else { return Vec::new() };
    let is_agent = |kind: &StepKind| matches!(kind, StepKind::Composite(Composite::Turn(_)));
    let agents = machine.nodes.iter().filter(|node| is_agent(&node.kind));
    let names: Vec<_> = agents.map(|node| (node.key.as_str().to_owned(), node.title.clone())).collect();
    if names.len() > 1 { names } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_shown_if_it_was_streamed_word_for_word() {
        let streamed = StreamedText::default();
        assert!(!streamed.is_shown(""), "nothing was streamed");
        streamed.append("A lighthouse");
        streamed.append(" shines.\n");
        assert!(streamed.is_shown("A lighthouse shines."));
        assert!(!streamed.is_shown("Another lighthouse shines."));
    }
}
