//! The iteration before which a loop certainly ends, according to its condition: `$.index >= 3`, alone or as one side
//! of `||`.

use flowloom_core::plan::{IndexLimit, IndexTest, LimitSource};
use flowloom_core::value::{Number, Value};
use oxc_allocator::Allocator;
use oxc_ast::ast::{BinaryOperator, Expression, LogicalOperator};
use oxc_parser::{ParseOptions, Parser};
use oxc_span::SourceType;

/// The field of the helper of a loop that has the number of the iteration, from 0.
const INDEX_FIELD: &str = "index";

/// The comparisons of the number of the iteration that make a condition true. `name` is that of the loop. `is_variable` says
/// which names are variables of the run.
pub(super) fn find_index_limits(condition: &str, name: &str, is_variable: impl Fn(&str) -> bool) -> Vec<IndexLimit> {
    let allocator = Allocator::default();
    let options = ParseOptions { preserve_parens: false, ..ParseOptions::default() };
    let parser = Parser::new(&allocator, condition, SourceType::mjs().with_jsx(true)).with_options(options);
    let Ok(expression) = parser.parse_expression() else { return Vec::new() };
    let mut limits = Vec::new();
    // A chain of `||` is as deep as it is long, so it is not searched recursively.
    let mut condition = &expression;
    while let Expression::LogicalExpression(logical) = condition
        && logical.operator == LogicalOperator::Or
    {
        limits.extend(read_comparison(&logical.right, name, &is_variable));
        condition = &logical.left;
    }
    limits.extend(read_comparison(condition, name, &is_variable));
    limits
}

fn read_comparison(condition: &Expression<'_>, name: &str, is_variable: &impl Fn(&str) -> bool) -> Option<IndexLimit> {
    let Expression::BinaryExpression(binary) = condition else { return None };
    let (operator, limit) = match is_index(&binary.left, name) {
        true => (binary.operator, &binary.right),
        false if is_index(&binary.right, name) => (mirror_operator(binary.operator), &binary.left),
        false => return None,
    };
    Some(IndexLimit { test: find_test(operator)?, limit: read_limit(limit, is_variable)? })
}

fn read_limit(limit: &Expression<'_>, is_variable: &impl Fn(&str) -> bool) -> Option<LimitSource> {
    match limit {
        Expression::NumericLiteral(literal) => {
            let value = Value::Number(Number::from_f64(literal.value)?);
            value.as_i64().map(LimitSource::Number)
        }
        Expression::Identifier(variable) => {
            let name = variable.name.as_str();
            is_variable(name).then(|| LimitSource::Variable(name.into()))
        }
        _ => None,
    }
}

/// Whether an expression is the number of the iteration: `$.index`, or `$NAME.index`.
fn is_index(expression: &Expression<'_>, name: &str) -> bool {
    let Expression::StaticMemberExpression(member) = expression else { return false };
    let Expression::Identifier(object) = &member.object else { return false };
    let object = object.name.as_str();
    member.property.name == INDEX_FIELD && (object == "$" || object.strip_prefix('$') == Some(name))
}

fn find_test(operator: BinaryOperator) -> Option<IndexTest> {
    match operator {
        BinaryOperator::GreaterEqualThan => Some(IndexTest::AtLeast),
        BinaryOperator::GreaterThan => Some(IndexTest::Above),
        BinaryOperator::Equality | BinaryOperator::StrictEquality => Some(IndexTest::Equal),
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
