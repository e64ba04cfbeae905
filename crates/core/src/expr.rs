//! Conditions and values that a plan computes: the part of every format's expressions that needs no interpreter.

use crate::code::Code;
use crate::error::StepError;
use crate::render::{self, Style};
use crate::template::{Lookup, Ref};
use crate::value::Value;

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A value.
    Constant(Value),
    /// A variable; `null` if there is none.
    Ref(Ref),
    /// The output of the step this belongs to; `null` before there is one.
    Output,
    /// Whether the text of a value contains a text, ignoring case. Falsy values have no text (docs/formats/steps.md).
    Contains(Box<Expr>, String),
    /// Whether both sides are the same value.
    Equals(Box<Expr>, Box<Expr>),
    /// Negation.
    Not(Box<Expr>),
    /// All of them.
    All(Vec<Expr>),
    /// Any of them.
    Any(Vec<Expr>),
    /// JavaScript, evaluated in the sandbox.
    Script(String),
}

impl Expr {
    /// The value in `scope`, where the step has given `output`.
    pub fn value(&self, scope: &dyn Lookup, output: Option<&Value>) -> Result<Value, StepError> {
        Ok(match self {
            Expr::Constant(value) => value.clone(),
            Expr::Ref(reference) => reference.value(scope).map(|found| found.to_value()).unwrap_or_default(),
            Expr::Output => output.cloned().unwrap_or_default(),
            Expr::Contains(inner, needle) => {
                let value = inner.value(scope, output)?;
                let text = if value.is_truthy() { render::text(&value, Style::Json) } else { String::new() };
                text.to_lowercase().contains(&needle.to_lowercase()).into()
            }
            Expr::Equals(left, right) => (left.value(scope, output)? == right.value(scope, output)?).into(),
            Expr::Not(inner) => (!inner.is_true(scope, output)?).into(),
            Expr::All(items) => {
                for item in items {
                    if !item.is_true(scope, output)? {
                        return Ok(false.into());
                    }
                }
                true.into()
            }
            Expr::Any(items) => {
                for item in items {
                    if item.is_true(scope, output)? {
                        return Ok(true.into());
                    }
                }
                false.into()
            }
            Expr::Script(_) => {
                return Err(StepError::new(Code::NoSandbox, "this expression needs the JavaScript sandbox"));
            }
        })
    }

    /// Whether the value counts as true.
    pub fn is_true(&self, scope: &dyn Lookup, output: Option<&Value>) -> Result<bool, StepError> {
        self.value(scope, output).map(|value| value.is_truthy())
    }
}
