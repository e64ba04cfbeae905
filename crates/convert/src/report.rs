//! The outcome of each construct of a definition in a conversion.

use std::collections::HashSet;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Diagnostic, Severity, Span};

/// The outcome of a construct.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// It gives the same outputs, requests and model calls.
    Kept,
    /// It gives the same ones for texts as inputs, and something around them differs.
    Differently,
    /// It is missing, or outputs, requests or model calls can differ.
    Lost,
}

impl Fate {
    /// The word in reports.
    pub fn name(self) -> &'static str {
        match self {
            Fate::Kept => "kept",
            Fate::Differently => "differently",
            Fate::Lost => "lost",
        }
    }
}

/// A construct and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The outcome of the construct.
    pub fate: Fate,
    /// The kind of a construct that is kept, such as `model call`; empty if it is not kept.
    pub construct: &'static str,
    /// Its place in the source.
    pub span: Span,
    /// The construct, and how it is expressed or why it is lost.
    pub message: String,
    /// Whether converting back restores the construct. Never true of losses.
    pub is_restored: bool,
}

impl Finding {
    /// The finding as a problem of the source file: a warning, or an error if losses are refused. `None` for constructs
    /// that are kept.
    pub fn to_diagnostic(&self, file: &str, is_strict: bool) -> Option<Diagnostic> {
        let code = match self.fate {
            Fate::Kept => return None,
            Fate::Differently => Code::ExpressedDifferently,
            Fate::Lost => Code::ConversionLoss,
        };
        let severity = if is_strict && self.fate == Fate::Lost { Severity::Error } else { Severity::Warning };
        let made = Diagnostic::new_warning(code, file, self.span, self.message.clone());
        Some(Diagnostic { severity, ..made })
    }
}

/// The findings of a conversion, in the order of the source.
#[derive(Debug, Default)]
pub(crate) struct Report {
    findings: Vec<Finding>,
    /// The findings that there are, since each is reported once.
    known: HashSet<(Fate, usize, usize, String)>,
    /// The positions of the findings about the whole definition, which say nothing about the step that caused them.
    general: Vec<usize>,
}

impl Report {
    fn add(&mut self, fate: Fate, span: Span, message: String) {
        self.push(Finding { fate, construct: "", span, message, is_restored: fate != Fate::Lost });
    }

    fn push(&mut self, finding: Finding) {
        let Span { start, length } = finding.span;
        if self.known.insert((finding.fate, start, length, finding.message.clone())) {
            self.findings.push(finding);
        }
    }

    /// `construct`: the kind of the kept construct.
    pub(crate) fn add_kept(&mut self, construct: &'static str, span: Span, message: impl Into<String>) {
        self.push(Finding { fate: Fate::Kept, construct, span, message: message.into(), is_restored: true });
    }

    pub(crate) fn add_difference(&mut self, span: Span, message: impl Into<String>) {
        self.add(Fate::Differently, span, message.into());
    }

    /// A difference of the whole definition, found at one of its steps, which can still be kept.
    pub(crate) fn add_general_difference(&mut self, span: Span, message: impl Into<String>) {
        let position = self.findings.len();
        self.add_difference(span, message);
        self.general.extend((self.findings.len() > position).then_some(position));
    }

    /// A difference that stays if the result is converted back, such as another name.
    pub(crate) fn add_change(&mut self, span: Span, message: impl Into<String>) {
        let (fate, message) = (Fate::Differently, message.into());
        self.push(Finding { fate, construct: "", span, message, is_restored: false });
    }

    pub(crate) fn add_loss(&mut self, span: Span, message: impl Into<String>) {
        self.add(Fate::Lost, span, message.into());
    }

    /// The number of findings so far, for [`Report::losses_since`].
    pub(crate) fn mark(&self) -> usize {
        self.findings.len()
    }

    /// Whether something was reported since a mark, except about the whole definition.
    pub(crate) fn has_more_than(&self, mark: usize) -> bool {
        let general = self.general.iter().rev().take_while(|position| **position >= mark).count();
        self.findings.len() > mark + general
    }

    /// The losses since a mark, for comments.
    pub(crate) fn losses_since(&self, mark: usize) -> Vec<String> {
        let found = self.findings[mark.min(self.findings.len())..].iter();
        found.filter(|finding| finding.fate == Fate::Lost).map(|finding| finding.message.clone()).collect()
    }

    /// All findings in source order.
    pub(crate) fn into_findings(mut self) -> Vec<Finding> {
        self.findings.sort_by_key(|finding| finding.span.start);
        self.findings
    }
}
