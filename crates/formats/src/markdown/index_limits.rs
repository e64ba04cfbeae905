//! The iteration before which a loop certainly ends, according to its condition: `$.index >= 3`, alone or as one side
//! of `||`.

use flowloom_core::value::{Number, Value};
use oxc_allocator::Allocator;
use oxc_ast::ast::{BinaryOperator, Expression, LogicalOperator};
use oxc_parser::{ParseOptions, Parser};
use oxc_span::SourceType;

/// The field of the helper of a loop that has the number of the iteration, from 0.
const INDEX_FIELD: &str = "index";

/// The number of the first iteration for which a condition is certainly true; `None` if the condition does not say it. `name` is
/// that of the loop.
pub(super) fn find_last_index(condition: &str, name: &str) -> Option<u64> {
    let allocator = Allocator::default();
    let options = ParseOptions { preserve_parens: false, ..ParseOptions::default() };
    let parser = Parser::new(&allocator, condition, SourceType::mjs().with_jsx(true)).with_options(options);
    let expression = parser.parse_expression().ok()?;
    find_in(&expression, name)
}

/// A chain of `||` is as deep as it is long, so it is not searched recursively.
fn find_in(mut condition: &Expression<'_>, name: &str) -> Option<u64> {
    let mut first = None;
    while let Expression::LogicalExpression(logical) = condition
        && logical.operator == LogicalOperator::Or
    {
        first = [first, find_in_comparison(&logical.right, name)].into_iter().flatten().min();
        condition = &logical.left;
    }
    [first, find_in_comparison(condition, name)].into_iter().flatten().min()
}

fn find_in_comparison(condition: &Expression<'_>, name: &str) -> Option<u64> {
    let Expression::BinaryExpression(binary) = condition else { return None };
    if is_index(&binary.left, name) {
        return first_index(binary.operator, read_integer(&binary.right)?);
    }
    let limit = read_integer(&binary.left).filter(|_| is_index(&binary.right, name))?;
    first_index(mirror_operator(binary.operator), limit)
}

/// Whether an expression is the number of the iteration: `$.index`, or `$NAME.index`.
fn is_index(expression: &Expression<'_>, name: &str) -> bool {
    let Expression::StaticMemberExpression(member) = expression else { return false };
    let Expression::Identifier(object) = &member.object else { return false };
    let object = object.name.as_str();
    member.property.name == INDEX_FIELD && (object == "$" || object.strip_prefix('$') == Some(name))
}

/// The value of a literal that is a whole number.
fn read_integer(expression: &Expression<'_>) -> Option<i64> {
    let Expression::NumericLiteral(literal) = expression else { return None };
    Value::Number(Number::from_f64(literal.value)?).as_i64()
}

/// The first index for which `index OPERATOR limit` is true.
fn first_index(operator: BinaryOperator, limit: i64) -> Option<u64> {
    match operator {
        BinaryOperator::GreaterEqualThan => Some(u64::try_from(limit).unwrap_or(0)),
        BinaryOperator::GreaterThan => Some(u64::try_from(limit.checked_add(1)?).unwrap_or(0)),
        // A negative number is never reached.
        BinaryOperator::Equality | BinaryOperator::StrictEquality => u64::try_from(limit).ok(),
        _ => None,
    }
}

/// The operator with its sides exchanged.
fn mirror_operator(operator: BinaryOperator) -> BinaryOperator {
    match operator {
        BinaryOperator::LessThan => BinaryOperator::GreaterThan,
        BinaryOperator::LessEqualThan => BinaryOperator::GreaterEqualThan,
        BinaryOperator::GreaterThan => BinaryOperator::LessThan,
        BinaryOperator::GreaterEqualThan => BinaryOperator::LessEqualThan,
        symmetric => symmetric,
    }
}
