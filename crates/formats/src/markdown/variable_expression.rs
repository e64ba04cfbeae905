//! JavaScript expressions over the variables of a run, as a person asks them in a debugger.

use std::sync::Arc;

use flowloom_core::error::StepFailure;
use flowloom_core::expr::js::Js;
use flowloom_core::value::{Map, Value};
use oxc_allocator::Allocator;
use oxc_parser::{ParseOptions, Parser};
use oxc_span::SourceType;

use super::check::ExpressionCheck;
use super::expression::{ALLOWED_GLOBALS, MAX_EXPRESSION_BYTES};
use super::native::NativeConverter;

/// An expression over variables.
#[derive(Clone, Debug)]
pub struct VariableExpression {
    /// The source, in parentheses.
    pub source: Arc<str>,
    /// The variables that it reads.
    pub names: Vec<Arc<str>>,
    /// Its native form; `None` if it needs the sandbox.
    native: Option<Js>,
}

impl VariableExpression {
    /// Parses an expression. Fails with the reason if it is none, or if it has parts that expressions of definitions cannot
    /// have, such as `await`.
    pub fn parse(source: &str) -> Result<VariableExpression, String> {
        if source.len() > MAX_EXPRESSION_BYTES {
            return Err(format!("an expression has at most {MAX_EXPRESSION_BYTES} bytes"));
        }
        let allocator = Allocator::default();
        let options = ParseOptions { preserve_parens: false, ..ParseOptions::default() };
        let parser = Parser::new(&allocator, source, SourceType::mjs()).with_options(options);
        let expression = parser.parse_expression().map_err(|errors| {
            let reason = errors.into_vec().first().map(|error| error.message.to_string()).unwrap_or_default();
            format!("this is not a JavaScript expression: {reason}")
        })?;
        let seen = ExpressionCheck::check_expression(&expression, &[]);
        if let Some(finding) = seen.findings.first() {
            return Err(finding.message.clone());
        }
        let free = seen.free.iter().map(|(name, _)| name.as_str()).filter(|name| !ALLOWED_GLOBALS.contains(name));
        let mut names: Vec<Arc<str>> = free.map(Into::into).collect();
        names.sort();
        names.dedup();
        let resolve = |name: &str| match name {
            "undefined" => Some(Js::Undefined),
            "NaN" => Some(Js::Special(f64::NAN)),
            "Infinity" => Some(Js::Special(f64::INFINITY)),
            name => names.iter().find(|known| &***known == name).map(|name| Js::Name(name.clone())),
        };
        let native = NativeConverter { names: &resolve, known: &|_| None }.convert_expression(&expression);
        Ok(VariableExpression { source: format!("({source})").into(), names, native })
    }

    /// Its value, where a variable that does not exist is `undefined`; `None` if it needs the sandbox.
    pub fn evaluate_natively(&self, variables: &Map) -> Option<Result<Option<Value>, StepFailure>> {
        let native = self.native.as_ref()?;
        Some(native.evaluate(variables))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_over_variables_are_evaluated() {
        let variables = Map::from_iter([("n".into(), 3.into()), ("text".into(), "tea".into())]);
        for (source, value) in [("n > 2", true), ("text === 'tea' && n < 3", false), ("missing === undefined", true)] {
            let expression = VariableExpression::parse(source).expect("an expression");
            assert_eq!(expression.evaluate_natively(&variables), Some(Ok(Some(value.into()))), "{source}");
        }
        let called = VariableExpression::parse("text.includes('e') || Math.max(n, 1)").expect("an expression");
        assert_eq!((called.evaluate_natively(&variables), called.names.len()), (None, 2), "it needs the sandbox");
        for source in ["n >", "await n", "n; text", ""] {
            assert!(VariableExpression::parse(source).is_err(), "{source}");
        }
    }
}
