//! Conditions and computed values of a plan: the part of every format's expressions that needs no JavaScript
//! interpreter.
//!
//! Text with references is in `template`, JavaScript in `js`. The three files are one syntax tree.

pub mod js;
mod names;
mod template;

use std::sync::Arc;

use crate::code::Code;
use crate::diagnostic::Span;
use crate::error::StepFailure;
use crate::render::{self, TextStyle};
use crate::value::Value;

use js::{ExpressionPlace, Js};
pub use names::VisitName;
pub use template::*;

/// An expression.
///
/// # Examples
///
/// ```
/// use flowloom_core::expr::Expr;
/// use flowloom_core::value::{Map, Value};
///
/// // Whether the field `status` of the output of a step is "done".
/// let status = Expr::Field(Box::new(Expr::Output), "status".into());
/// let is_done = Expr::Equals(Box::new(status), Box::new(Expr::Constant("done".into())));
/// let output = Value::map([("status", "done".into())]);
/// assert_eq!(is_done.is_true(&Map::new(), Some(&output)).ok(), Some(true));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A value.
    Constant(Value),
    /// A variable; `null` if it does not exist.
    Ref(Ref),
    /// The output of the step that the expression belongs to; `null` before there is one.
    Output,
    /// A field of an object; `null` if it does not exist.
    Field(Box<Expr>, Arc<str>),
    /// The text of a value, as of JavaScript's `String()`, but with objects as JSON.
    Text(Box<Expr>),
    /// Whether the text of a value contains a text, ignoring case. The text is that of JavaScript; falsy values have none.
    Contains(Box<Expr>, String),
    /// Whether both sides are equal.
    Equals(Box<Expr>, Box<Expr>),
    /// Negation.
    Not(Box<Expr>),
    /// True if all are true.
    All(Vec<Expr>),
    /// True if any is true.
    Any(Vec<Expr>),
    /// JavaScript that is evaluated natively.
    Js(Arc<Js>),
    /// JavaScript for the sandbox. It is evaluated before its step runs, and the result is looked up here.
    Script(Arc<Script>),
}

/// An expression for the sandbox.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// The key of its value while its step runs; unique in the plan.
    pub slot: Arc<str>,
    /// The expression.
    pub source: Arc<str>,
    /// The free names that it reads.
    pub names: Vec<Arc<str>>,
    /// The place in the source.
    pub span: Span,
    /// The place and the original source, for messages.
    pub place: Arc<ExpressionPlace>,
}

impl Expr {
    /// The value in `scope`, where `output` is the output of the step; absent is `null`. Fails with the error of the
    /// expression.
    pub fn evaluate_or_null(&self, scope: &dyn Lookup, output: Option<&Value>) -> Result<Value, StepFailure> {
        self.evaluate(scope, output).map(Option::unwrap_or_default)
    }

    /// The value in `scope`, where `output` is the output of the step; `None` is JavaScript's `undefined`. Fails if a
    /// JavaScript expression throws, or if a script was not evaluated in the sandbox before.
    pub fn evaluate(&self, scope: &dyn Lookup, output: Option<&Value>) -> Result<Option<Value>, StepFailure> {
        Ok(Some(match self {
            Expr::Constant(value) => value.clone(),
            Expr::Ref(reference) => reference.find_value(scope).map(|found| found.to_value()).unwrap_or_default(),
            Expr::Output => output.cloned().unwrap_or_default(),
            Expr::Field(inner, key) => inner.evaluate_or_null(scope, output)?.get(key).cloned().unwrap_or_default(),
            Expr::Text(inner) => {
                render::render_text(&inner.evaluate_or_null(scope, output)?, TextStyle::JavaScript).into()
            }
            Expr::Contains(inner, needle) => {
                let value = inner.evaluate_or_null(scope, output)?;
                let text =
                    if value.is_truthy() { render::render_text(&value, TextStyle::JavaScript) } else { String::new() };
                text.to_lowercase().contains(&needle.to_lowercase()).into()
            }
            Expr::Equals(left, right) => {
                (left.evaluate_or_null(scope, output)? == right.evaluate_or_null(scope, output)?).into()
            }
            Expr::Not(inner) => (!inner.is_true(scope, output)?).into(),
            Expr::All(items) => {
                for item in items {
                    if !item.is_true(scope, output)? {
                        return Ok(Some(false.into()));
                    }
                }
                true.into()
            }
            Expr::Any(items) => {
                for item in items {
                    if item.is_true(scope, output)? {
                        return Ok(Some(true.into()));
                    }
                }
                false.into()
            }
            Expr::Js(js) => return js.evaluate(scope),
            Expr::Script(script) => {
                return scope.lookup_script(&script.slot).cloned().ok_or_else(|| {
                    StepFailure::new(Code::NoSandbox, format!("the expression {{{}}} was not evaluated", script.source))
                });
            }
        }))
    }

    /// Whether the value is truthy. Fails like [`Expr::evaluate`].
    pub fn is_true(&self, scope: &dyn Lookup, output: Option<&Value>) -> Result<bool, StepFailure> {
        match self {
            Expr::Js(js) => js.is_true(scope),
            _ => self.evaluate_or_null(scope, output).map(|value| value.is_truthy()),
        }
    }

    /// Calls `visit` with every script in the expression.
    pub fn visit_scripts(&self, visit: &mut dyn FnMut(&Arc<Script>)) {
        match self {
            Expr::Script(script) => visit(script),
            Expr::Contains(inner, _) | Expr::Not(inner) | Expr::Field(inner, _) | Expr::Text(inner) => {
                inner.visit_scripts(visit);
            }
            Expr::Equals(left, right) => [left, right].into_iter().for_each(|side| side.visit_scripts(visit)),
            Expr::All(items) | Expr::Any(items) => items.iter().for_each(|item| item.visit_scripts(visit)),
            Expr::Constant(_) | Expr::Ref(_) | Expr::Output | Expr::Js(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse_value;
    use crate::value::Map;

    #[test]
    fn a_value_contains_what_its_reference_would_show() {
        for (value, text, is_contained) in [
            ("1e21", "1e+21", true),
            ("1.0", "1.0", false),
            ("1.0", "1", true),
            (r#"{"b":1,"2":2}"#, r#"{"2":2,"B""#, true),
            ("0", "0", false),
        ] {
            let value = parse_value(value).expect("JSON");
            let contains = Expr::Contains(Box::new(Expr::Constant(value.clone())), text.to_owned());
            assert_eq!(contains.is_true(&Map::new(), None).expect("no failure"), is_contained, "{value:?} {text}");
        }
    }

    #[test]
    fn the_text_of_a_falsy_value_can_be_searched() {
        for (value, text) in [("false", "FALSE"), ("null", "null"), ("0", "0")] {
            let value = Box::new(Expr::Constant(parse_value(value).expect("JSON")));
            let contains = |inner| Expr::Contains(Box::new(inner), text.to_owned()).is_true(&Map::new(), None);
            assert_eq!(contains(Expr::Text(value.clone())).ok(), Some(true), "{text}");
            assert_eq!(contains(*value).ok(), Some(false), "{text}");
        }
    }
}
