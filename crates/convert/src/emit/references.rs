//! Texts with references, in the notation of the target: which variable each means, and what else is reported of it.

use flowloom_core::diagnostic::Span;
use flowloom_core::expr::Template;
use flowloom_core::plan::Inputs;
use flowloom_core::value::Value;

use super::{AnswerReads, Emitter};
use crate::names::Known;
use crate::text::{PathPart, Piece, Reference, read_pieces, shorten_line};

impl Emitter<'_> {
    /// A text in the notation of a format: `write` makes a reference, `looks_like` finds text that the target would
    /// read as one.
    pub(super) fn write_text(
        &mut self,
        template: &Template,
        span: Span,
        write: fn(&str, &Reference) -> Option<String>,
        has_reference: fn(&str) -> bool,
    ) -> String {
        let mark = self.report.mark();
        let mut out = String::new();
        for piece in self.resolve_pieces(template, span) {
            match piece {
                Piece::Value(reference) => out.push_str(&self.write_reference(&reference, span, write)),
                Piece::Text(text) | Piece::Secret(text) | Piece::Expression(text) => {
                    if has_reference(&text) {
                        let message = format!("the text {:?} looks like a reference here", shorten_line(&text));
                        self.report.add_loss(span, message);
                    }
                    out.push_str(&text);
                }
            }
        }
        self.has_other_text |= self.report.has_more_than(mark);
        out
    }

    /// The pieces of a template: texts, and references to variables that are set, in the names of the target. Everything
    /// else is text here, and is reported.
    pub(super) fn resolve_pieces(&mut self, template: &Template, span: Span) -> Vec<Piece> {
        let mark = self.report.mark();
        let mut pieces: Vec<Piece> = Vec::new();
        for piece in read_pieces(template) {
            let text = match piece {
                Piece::Text(text) => text,
                Piece::Secret(name) => {
                    self.report.add_loss(span, format!("the secret {name}: prompts cannot contain secrets"));
                    "…".to_owned()
                }
                Piece::Expression(source) => {
                    let message =
                        format!("the expression {{{}}}: only references can be written here", shorten_line(&source));
                    self.report.add_loss(span, message);
                    "…".to_owned()
                }
                Piece::Value(mut reference) => match self.find_constant(&reference) {
                    Some(text) => {
                        self.has_other_text |= self.fixed.contains_key(&reference.name);
                        text
                    }
                    None => match self.find_reference(&reference, span) {
                        Some(known) => {
                            reference.name = known.target;
                            if known.field.is_some() && !reference.path.is_empty() {
                                reference.path.remove(0);
                            }
                            pieces.push(Piece::Value(reference));
                            continue;
                        }
                        None => reference.source,
                    },
                },
            };
            match pieces.last_mut() {
                Some(Piece::Text(last)) => last.push_str(&text),
                _ => pieces.push(Piece::Text(text)),
            }
        }
        self.has_other_text |= self.report.has_more_than(mark);
        pieces
    }

    /// The text of a constant that a definition declares, or of an input that the target fixes.
    pub(super) fn find_constant(&self, reference: &Reference) -> Option<String> {
        if let (Some(fixed), true) = (self.fixed.get(&reference.name), reference.path.is_empty()) {
            return Some(fixed.clone());
        }
        let Inputs::Named { defaults, accepts_others: false, .. } = &self.plan.inputs else { return None };
        let is_input = self.inputs.contains(&reference.name);
        let is_set = self.names.find(&reference.name).is_some();
        let value = defaults.get(reference.name.as_str()).filter(|_| !is_input && !is_set && reference.path.is_empty());
        value.and_then(Value::as_str).map(str::to_owned)
    }

    /// The variable that a reference means, if it is set; reports what else it may be.
    pub(super) fn find_reference(&mut self, reference: &Reference, span: Span) -> Option<Known> {
        let source = &reference.source;
        self.declare_input(reference, span);
        let Some(known) = self.names.find(&reference.name).cloned() else {
            if self.names.is_lost(&reference.name) {
                self.report.add_loss(span, format!("{source}: what sets it is lost, so it is text here"));
                return None;
            }
            if self.inputs.contains(&reference.name) {
                self.report.add_loss(span, format!("{source}: an output has taken its place, so it is text here"));
                return None;
            }
            match &self.plan.inputs {
                Inputs::Named { accepts_others: true, .. } => {
                    let message = format!("{source}: an input that is not declared, which is text here");
                    self.report.add_loss(span, message);
                }
                Inputs::Named { defaults, .. } if defaults.contains_key(reference.name.as_str()) => {
                    self.report.add_loss(span, format!("{source}: a constant that is not a string"));
                }
                Inputs::Named { .. } | Inputs::Whole(_) => {
                    self.report.add_difference(span, format!("{source}: nothing sets it, so it is text here"));
                }
            }
            return None;
        };
        if let Some(field) = known.field {
            let message = format!("{source}: of this output, only the field {field} is there");
            match reference.path.first() {
                Some(PathPart::Field(first)) if first == field => {}
                Some(_) => {
                    self.report.add_loss(span, format!("{message}, so it is text here"));
                    return None;
                }
                None => self.report.add_loss(span, format!("{message}, which takes its place")),
            }
        }
        if self.splits_answer(&known, reference) {
            if self.reads == AnswerReads::Length && is_length(reference) {
                return Some(known);
            }
            self.lose_part(source, span);
            return None;
        }
        if !known.is_text || !reference.path.is_empty() {
            let message = format!("{source} may not be a string, and other values are written differently here");
            self.report.add_loss(span, message);
        } else if !self.inputs.contains(&reference.name) {
            let message = "a reference to an answer without any text is written as this format writes missing values";
            self.report.add_general_difference(self.plan.root.span, message);
        }
        Some(known)
    }

    /// Reports that a part of an answer that is a text cannot be read here.
    pub(super) fn lose_part(&mut self, source: &str, span: Span) {
        self.report.add_loss(span, format!("{source}: a text has no parts here, so the reference is text"));
    }

    /// Whether a reference reads a part of an answer that is a text, where only the whole can be read.
    pub(super) fn splits_answer(&self, known: &Known, reference: &Reference) -> bool {
        known.is_text && !reference.path.is_empty() && self.reads != AnswerReads::Parts
    }

    fn write_reference(
        &mut self,
        reference: &Reference,
        span: Span,
        write: fn(&str, &Reference) -> Option<String>,
    ) -> String {
        write(&reference.name, reference).unwrap_or_else(|| {
            let message = format!("{}: this path cannot be written here", reference.source);
            self.report.add_loss(span, message);
            reference.source.clone()
        })
    }
}

/// Whether a reference is to the length of a value.
pub(super) fn is_length(reference: &Reference) -> bool {
    matches!(reference.path.as_slice(), [PathPart::Field(field)] if field == "length")
}
