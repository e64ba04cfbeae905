//! The `provide` of a block: the names that its content can use.
//!
//! Values are variables of the block. What variables cannot hold, functions and regular expressions, is inserted where the
//! content names it; the variables that it reads itself are provided under names of their own.

use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::Span;
use flowloom_core::expr::js::Js;
use flowloom_core::expr::{Expr, Script};
use oxc_allocator::Allocator;
use oxc_ast::ast::{ArrayExpressionElement, Expression, ObjectProperty, ObjectPropertyKind, PropertyKind};
use oxc_span::GetSpan;

use super::MarkdownCompiler;
use super::actions::{Action, ActionValue};
use super::expression::{CompiledExpression, MAX_EXPRESSION_BYTES};
use super::native::static_key;
use super::parse::TextPiece;
use super::scope::{Meaning, ScopeNames};

/// The initial variables of a block's scope.
#[derive(Clone, Default)]
pub(super) struct ProvidedValues {
    pub(super) provide: Vec<(Arc<str>, Expr)>,
    pub(super) scripts: Vec<Arc<Script>>,
    names: Vec<ProvidedName>,
}

/// A provided name.
#[derive(Clone)]
struct ProvidedName {
    name: String,
    /// Its place in the file.
    span: Span,
    meaning: Meaning,
}

impl MarkdownCompiler<'_> {
    /// The values provided to a block; `None`, with an error, if they are not valid.
    pub(super) fn read_provide(
        &mut self,
        action: &Action<'_>,
        names: &ScopeNames,
        text: &TextPiece<'_>,
    ) -> Option<ProvidedValues> {
        let mut given = ProvidedValues::default();
        let expression = match action.get("provide").map(|attribute| &attribute.value) {
            None => return Some(given),
            Some(ActionValue::Expression(expression)) => expression,
            Some(ActionValue::Text(_) | ActionValue::Bare) => {
                self.attribute_error(action, "provide", "must be an object in braces", text).help =
                    Some("write provide={{ name: value }}".into());
                return None;
            }
        };
        let allocator = Allocator::default();
        let parsed = self.parse_expression(expression, &allocator)?;
        let Expression::ObjectExpression(object) = &parsed else {
            self.attribute_error(action, "provide", "must be an object literal with plain keys", text).help =
                Some("write provide={{ name: value }}".into());
            return None;
        };
        let mut is_fine = true;
        for property in &object.properties {
            is_fine &= match property {
                ObjectPropertyKind::ObjectProperty(pair) if is_plain(pair) => {
                    self.read_provided(pair, names, expression, &mut given).is_some()
                }
                other => {
                    let (start, end) = (other.span().start as usize, other.span().end as usize);
                    let message = "provide must be an object literal with plain keys".to_owned();
                    self.report_error(expression, Code::ActionAttribute, start, end, message).help =
                        Some("write provide={{ name: value }}".into());
                    false
                }
            };
        }
        // The names count even if a value is not valid, so that the block is checked with them.
        if !is_fine {
            given.provide.clear();
        }
        Some(given)
    }

    /// Adds a property to the provided values; `None`, with an error, if its value is not valid.
    fn read_provided(
        &mut self,
        pair: &ObjectProperty<'_>,
        names: &ScopeNames,
        expression: &TextPiece<'_>,
        given: &mut ProvidedValues,
    ) -> Option<()> {
        let Some(name) = static_key(&pair.key) else { return Some(()) };
        let (start, end) = (pair.key.span().start as usize, pair.key.span().end as usize);
        given.names.push(ProvidedName {
            name: name.clone(),
            span: expression.file_span(start, end),
            meaning: Meaning::Variable,
        });
        // A method or a getter is an expression only as a member of an object.
        let start = pair.span.start as usize;
        let key = flowloom_core::json::write_json(&name.as_str().into());
        let member = format!("({{{}}})[{key}]", &expression.text[start..pair.span.end as usize]);
        let is_member = pair.method || pair.kind == PropertyKind::Get;
        let value = match pair.value.span() {
            _ if is_member => expression.expression_piece(&member, &[(0, start), (2, start)]),
            span => expression.slice(span.start as usize, span.end as usize),
        };
        let source = match self.compile_expression(&value, names, &[])? {
            CompiledExpression::Value(source) => source,
            CompiledExpression::Blocks(blocks) => self.markdown_value(blocks, &value),
            CompiledExpression::Empty => return None,
        };
        if !pair.method && !holds_code(&pair.value, names) {
            let value = source.into_expr(&mut self.slots, &mut given.scripts);
            given.provide.push((name.into(), value));
            return Some(());
        }
        if source.js.len() > MAX_EXPRESSION_BYTES {
            let message =
                format!("{name} has more than {MAX_EXPRESSION_BYTES} bytes, with the functions that it calls");
            self.report_error(expression, Code::TooComplex, start, start + 1, message);
            return None;
        }
        let read: Vec<(Arc<str>, Arc<str>)> =
            source.names.iter().map(|read| (read.clone(), format!("${name}${read}").into())).collect();
        let inserted = source.rename_names(&read);
        given.provide.extend(read.into_iter().map(|(read, own)| (own, Expr::Js(Arc::new(Js::Name(read))))));
        given.names.last_mut()?.meaning = Meaning::Inserted(Arc::new(inserted));
        Some(())
    }

    /// The names inside a block.
    pub(super) fn inner_names(
        &mut self,
        names: &ScopeNames,
        name: &str,
        helper: Meaning,
        provided: Option<ProvidedValues>,
        text: &TextPiece<'_>,
    ) -> (ScopeNames, Option<ProvidedValues>) {
        let mut inner = names.inner_scope();
        inner.add_name("$", helper.clone());
        inner.add_name(&format!("${name}"), helper);
        for ProvidedName { name, span, meaning } in provided.iter().flat_map(|provided| &provided.names) {
            if !inner.add_name(name, meaning.clone()) {
                let message = format!("the name {name} is used already in this block");
                self.problems.add_error(Code::RepeatedName, *span, message).file = text.file.to_owned();
            }
        }
        (inner, provided)
    }
}

/// Whether a property has a name that is known before the run, and a value.
fn is_plain(pair: &ObjectProperty<'_>) -> bool {
    pair.kind != PropertyKind::Set && (!pair.computed || pair.key.static_name().is_some())
}

/// Whether the value of an expression is or has a function or a regular expression that is written in it.
fn holds_code(expression: &Expression<'_>, names: &ScopeNames) -> bool {
    match expression {
        Expression::ArrowFunctionExpression(_) | Expression::FunctionExpression(_) | Expression::RegExpLiteral(_) => {
            true
        }
        Expression::Identifier(name) => matches!(names.find_meaning(&name.name), Some(Meaning::Inserted(_))),
        Expression::ConditionalExpression(choice) => {
            holds_code(&choice.consequent, names) || holds_code(&choice.alternate, names)
        }
        Expression::LogicalExpression(both) => holds_code(&both.left, names) || holds_code(&both.right, names),
        Expression::ArrayExpression(list) => list
            .elements
            .iter()
            .filter_map(ArrayExpressionElement::as_expression)
            .any(|element| holds_code(element, names)),
        Expression::ObjectExpression(object) => object.properties.iter().any(|property| match property {
            ObjectPropertyKind::ObjectProperty(pair) => pair.method || holds_code(&pair.value, names),
            ObjectPropertyKind::SpreadProperty(_) => false,
        }),
        _ => false,
    }
}
