//! Collects what is wrong with one file, so that everything is reported at once.

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Diagnostic, Severity, Span};

/// The problems of one file.
#[derive(Debug)]
pub struct Problems {
    file: String,
    list: Vec<Diagnostic>,
    /// Where everything is reported, if the text does not stand in the file as it is (a flow inside a JSON string).
    inside: Option<Span>,
}

impl Problems {
    /// No problems yet.
    pub fn new(file: &str) -> Problems {
        Problems { file: file.to_owned(), list: Vec::new(), inside: None }
    }

    /// Reports everything from now on at `span`, without fixes: the text is an escaped part of the file.
    pub fn within(&mut self, span: Span) {
        self.inside = Some(span);
    }

    /// Adds an error.
    pub fn error(&mut self, code: Code, span: Span, message: impl Into<String>) -> &mut Diagnostic {
        let diagnostic = Diagnostic::error(code, &self.file, span, message);
        self.add(diagnostic)
    }

    /// Adds a warning.
    pub fn warn(&mut self, code: Code, span: Span, message: impl Into<String>) -> &mut Diagnostic {
        let diagnostic = Diagnostic::warning(code, &self.file, span, message);
        self.add(diagnostic)
    }

    /// Adds a finished diagnostic.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.list.push(diagnostic);
    }

    fn add(&mut self, mut diagnostic: Diagnostic) -> &mut Diagnostic {
        if let Some(span) = self.inside {
            diagnostic.span = span;
        }
        self.list.push(diagnostic);
        let last = self.list.len() - 1;
        &mut self.list[last]
    }

    /// Whether the file is refused.
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// All problems, in the order of the file.
    pub fn into_list(mut self) -> Vec<Diagnostic> {
        if self.inside.is_some() {
            self.list.iter_mut().for_each(|diagnostic| diagnostic.fix = None);
        }
        self.list.sort_by_key(|diagnostic| diagnostic.span.start);
        self.list
    }
}
