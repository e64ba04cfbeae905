//! Converts the subset of JavaScript that is evaluated natively.

use flowloom_core::expr::js::{Binary, Js, ListItem, Logic, Property, Unary};
use flowloom_core::render::to_js_number;
use flowloom_core::value::{Number, Value};
use oxc_ast::ast::{
    ArrayExpressionElement, BinaryOperator, ChainElement, Expression, LogicalOperator, MemberExpression,
    NumericLiteral, ObjectExpression, ObjectPropertyKind, PropertyKey, PropertyKind, TemplateLiteral, UnaryOperator,
};

/// Maximum depth of a native expression; deeper ones are evaluated in the sandbox.
const MAX_NATIVE_DEPTH: usize = 64;

/// Inherited members of objects, lists and strings; they are functions.
const INHERITED_MEMBERS: [&str; 11] = [
    "constructor",
    "hasOwnProperty",
    "isPrototypeOf",
    "propertyIsEnumerable",
    "toLocaleString",
    "toString",
    "valueOf",
    "__proto__",
    "__defineGetter__",
    "__lookupGetter__",
    "at",
];

/// Methods of lists and strings; as values they are functions.
const LIST_AND_STRING_METHODS: [&str; 40] = [
    "concat",
    "copyWithin",
    "entries",
    "every",
    "fill",
    "filter",
    "find",
    "findIndex",
    "findLast",
    "flat",
    "flatMap",
    "forEach",
    "includes",
    "indexOf",
    "join",
    "keys",
    "lastIndexOf",
    "map",
    "pop",
    "push",
    "reduce",
    "reduceRight",
    "reverse",
    "shift",
    "slice",
    "some",
    "sort",
    "splice",
    "unshift",
    "values",
    "charAt",
    "endsWith",
    "match",
    "padEnd",
    "padStart",
    "repeat",
    "replace",
    "split",
    "startsWith",
    "trim",
];

/// Resolves a name.
pub(super) type NameResolver<'n> = &'n dyn Fn(&str) -> Option<Js>;

/// Supplies the value of calls and fragments that are known at compile time.
pub(super) type KnownValues<'n> = &'n dyn Fn(&Expression<'_>) -> Option<Js>;

/// Converts expressions.
pub(super) struct NativeConverter<'n> {
    pub(super) names: NameResolver<'n>,
    pub(super) known: KnownValues<'n>,
}

impl NativeConverter<'_> {
    /// The native form of an expression; `None` if it needs the sandbox.
    pub(super) fn convert_expression(&self, expression: &Expression<'_>) -> Option<Js> {
        self.convert_at(expression, 0).filter(|js| is_exact(js, true))
    }

    fn convert_boxed(&self, expression: &Expression<'_>, depth: usize) -> Option<Box<Js>> {
        self.convert_at(expression, depth + 1).map(Box::new)
    }

    fn convert_at(&self, expression: &Expression<'_>, depth: usize) -> Option<Js> {
        if depth > MAX_NATIVE_DEPTH {
            return None;
        }
        if let Some(known) = (self.known)(expression) {
            return Some(known);
        }
        Some(match expression {
            Expression::BooleanLiteral(literal) => Js::Literal(literal.value.into()),
            Expression::NullLiteral(_) => Js::Literal(Value::Null),
            Expression::NumericLiteral(literal) => number_literal(literal),
            Expression::StringLiteral(literal) if !literal.lone_surrogates => {
                Js::Literal(literal.value.as_str().into())
            }
            Expression::TemplateLiteral(template) => self.convert_template(template, depth)?,
            Expression::Identifier(name) => (self.names)(name.name.as_str())?,
            Expression::ArrayExpression(list) => {
                let items = list.elements.iter().map(|element| self.convert_item(element, depth));
                Js::List(items.collect::<Option<_>>()?)
            }
            Expression::ObjectExpression(object) => self.convert_object(object, depth)?,
            Expression::UnaryExpression(unary) => {
                let operator = match unary.operator {
                    UnaryOperator::UnaryNegation => Unary::Minus,
                    UnaryOperator::UnaryPlus => Unary::Plus,
                    UnaryOperator::LogicalNot => Unary::Not,
                    UnaryOperator::BitwiseNot => Unary::BitNot,
                    UnaryOperator::Typeof => Unary::TypeOf,
                    UnaryOperator::Void => Unary::Void,
                    UnaryOperator::Delete => return None,
                };
                Js::Unary(operator, self.convert_boxed(&unary.argument, depth)?)
            }
            Expression::BinaryExpression(binary) => {
                let (left, right) =
                    (self.convert_boxed(&binary.left, depth)?, self.convert_boxed(&binary.right, depth)?);
                Js::Binary(convert_operator(binary.operator)?, left, right)
            }
            Expression::LogicalExpression(logical) => {
                let operator = match logical.operator {
                    LogicalOperator::And => Logic::And,
                    LogicalOperator::Or => Logic::Or,
                    LogicalOperator::Coalesce => Logic::Nullish,
                };
                Js::Logic(
                    operator,
                    self.convert_boxed(&logical.left, depth)?,
                    self.convert_boxed(&logical.right, depth)?,
                )
            }
            Expression::ConditionalExpression(choice) => {
                let part = |part| self.convert_at(part, depth + 1);
                Js::Choice(Box::new([part(&choice.test)?, part(&choice.consequent)?, part(&choice.alternate)?]))
            }
            Expression::ChainExpression(chain) => match &chain.expression {
                ChainElement::CallExpression(_) | ChainElement::TSNonNullExpression(_) => return None,
                element => Js::Chain(Box::new(self.convert_member(element.as_member_expression()?, depth)?)),
            },
            Expression::ParenthesizedExpression(inner) => self.convert_at(&inner.expression, depth + 1)?,
            other => self.convert_member(other.as_member_expression()?, depth)?,
        })
    }

    fn convert_template(&self, template: &TemplateLiteral<'_>, depth: usize) -> Option<Js> {
        let mut parts = Vec::new();
        let mut values = template.expressions.iter();
        for quasi in &template.quasis {
            let text = quasi.value.cooked.as_ref()?;
            if !text.is_empty() {
                parts.push(Js::Literal(text.as_str().into()));
            }
            if let Some(value) = values.next() {
                parts.push(self.convert_at(value, depth + 1)?);
            }
        }
        Some(Js::Template(parts))
    }

    fn convert_item(&self, element: &ArrayExpressionElement<'_>, depth: usize) -> Option<ListItem> {
        match element {
            ArrayExpressionElement::SpreadElement(spread) => {
                Some(ListItem::Spread(self.convert_at(&spread.argument, depth + 1)?))
            }
            ArrayExpressionElement::Elision(_) => None,
            element => Some(ListItem::One(self.convert_at(element.as_expression()?, depth + 1)?)),
        }
    }

    fn convert_object(&self, object: &ObjectExpression<'_>, depth: usize) -> Option<Js> {
        let property = |property: &ObjectPropertyKind<'_>| match property {
            ObjectPropertyKind::SpreadProperty(spread) => {
                Some(Property::Spread(self.convert_at(&spread.argument, depth + 1)?))
            }
            ObjectPropertyKind::ObjectProperty(pair) => {
                if pair.method || pair.kind != PropertyKind::Init {
                    return None;
                }
                let key = match &pair.key {
                    key if pair.computed => self.convert_at(key.as_expression()?, depth + 1)?,
                    key => Js::Literal(static_key(key)?.into()),
                };
                Some(Property::Pair(key, self.convert_at(&pair.value, depth + 1)?))
            }
        };
        Some(Js::Object(object.properties.iter().map(property).collect::<Option<_>>()?))
    }

    fn convert_member(&self, member: &MemberExpression<'_>, depth: usize) -> Option<Js> {
        let (object, key) = match member {
            MemberExpression::StaticMemberExpression(member) => {
                let name = member.property.name.as_str();
                if INHERITED_MEMBERS.contains(&name) || LIST_AND_STRING_METHODS.contains(&name) {
                    return None;
                }
                (&member.object, Js::Literal(name.into()))
            }
            MemberExpression::ComputedMemberExpression(member) => {
                (&member.object, self.convert_at(&member.expression, depth + 1)?)
            }
            MemberExpression::PrivateFieldExpression(_) => return None,
        };
        Some(Js::Member(self.convert_boxed(object, depth)?, Box::new(key), member.optional()))
    }
}

/// Whether the native result equals that of JavaScript. Lists and objects cannot hold `NaN` here, so a list or object
/// that the expression creates must be its result and not be read by the rest of it: in a result, JSON has `null` there
/// as well.
fn is_exact(js: &Js, is_result: bool) -> bool {
    match js {
        Js::List(items) => {
            is_result
                // A list of Markdown texts is rendered as text, which only the sandbox knows.
                && !items.iter().any(|item| matches!(item, ListItem::One(js) | ListItem::Spread(js) if is_markdown(js)))
                && items.iter().all(|item| matches!(item, ListItem::One(js) | ListItem::Spread(js) if is_exact(js, true)))
        }
        Js::Object(properties) => {
            is_result
                && properties.iter().all(|property| match property {
                    Property::Pair(key, value) => is_exact(key, false) && is_exact(value, true),
                    Property::Spread(spread) => is_exact(spread, true),
                })
        }
        Js::Member(object, key, _) => is_exact(object, false) && is_exact(key, false),
        Js::Chain(inner) => is_exact(inner, is_result),
        Js::Unary(Unary::Not | Unary::TypeOf | Unary::Void, inner) => is_exact(inner, true),
        Js::Unary(_, inner) => is_exact(inner, false),
        Js::Binary(_, left, right) => is_exact(left, false) && is_exact(right, false),
        Js::Logic(_, left, right) => is_exact(left, is_result) && is_exact(right, is_result),
        Js::Choice(parts) => {
            let [test, first, second] = &**parts;
            is_exact(test, true) && is_exact(first, is_result) && is_exact(second, is_result)
        }
        Js::Template(parts) => parts.iter().all(|part| is_exact(part, false)),
        Js::Literal(_) | Js::Undefined | Js::Special(_) | Js::Name(_) | Js::Computed(_) | Js::Placed(..) => true,
    }
}

/// Whether the value may be a Markdown text.
fn is_markdown(js: &Js) -> bool {
    match js {
        Js::Computed(_) => true,
        Js::Choice(parts) => is_markdown(&parts[1]) || is_markdown(&parts[2]),
        Js::Logic(_, left, right) => is_markdown(left) || is_markdown(right),
        Js::List(items) => {
            items.iter().any(|item| matches!(item, ListItem::One(js) | ListItem::Spread(js) if is_markdown(js)))
        }
        _ => false,
    }
}

/// The name of a key that is not computed; `None` for keys that need the sandbox.
pub(super) fn static_key(key: &PropertyKey<'_>) -> Option<String> {
    let name = key.static_name()?.into_owned();
    (name != "__proto__").then_some(name)
}

/// A number with all the digits that are written.
fn number_literal(literal: &NumericLiteral<'_>) -> Js {
    let Some(number) = Number::from_f64(literal.value) else { return Js::Special(literal.value) };
    Js::Literal(Value::Number(written_number(literal).unwrap_or(number)))
}

/// The number as it is written, if it is written as in JSON.
pub(super) fn written_number(literal: &NumericLiteral<'_>) -> Option<Number> {
    let written = Number::parse(literal.raw.as_ref()?.as_str())?;
    Number::parse(&to_js_number(&written))
}

fn convert_operator(operator: BinaryOperator) -> Option<Binary> {
    Some(match operator {
        BinaryOperator::Addition => Binary::Add,
        BinaryOperator::Subtraction => Binary::Subtract,
        BinaryOperator::Multiplication => Binary::Multiply,
        BinaryOperator::Division => Binary::Divide,
        BinaryOperator::Remainder => Binary::Remainder,
        BinaryOperator::Exponential => Binary::Power,
        BinaryOperator::Equality => Binary::Equal,
        BinaryOperator::Inequality => Binary::NotEqual,
        BinaryOperator::StrictEquality => Binary::Same,
        BinaryOperator::StrictInequality => Binary::NotSame,
        BinaryOperator::LessThan => Binary::Less,
        BinaryOperator::LessEqualThan => Binary::LessOrEqual,
        BinaryOperator::GreaterThan => Binary::Greater,
        BinaryOperator::GreaterEqualThan => Binary::GreaterOrEqual,
        BinaryOperator::BitwiseAnd => Binary::BitAnd,
        BinaryOperator::BitwiseOR => Binary::BitOr,
        BinaryOperator::BitwiseXOR => Binary::BitXor,
        BinaryOperator::ShiftLeft => Binary::ShiftLeft,
        BinaryOperator::ShiftRight => Binary::ShiftRight,
        BinaryOperator::ShiftRightZeroFill => Binary::ShiftRightZero,
        BinaryOperator::In | BinaryOperator::Instanceof => return None,
    })
}
