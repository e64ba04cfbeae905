//! Converts the subset of JavaScript that is evaluated natively.

use flowloom_core::expr::js::{Binary, Item, Js, Logic, Property, Unary};
use flowloom_core::value::{Number, Value};
use oxc_ast::ast::{
    ArrayExpressionElement, BinaryOperator, ChainElement, Expression, LogicalOperator, MemberExpression,
    ObjectExpression, ObjectPropertyKind, PropertyKey, PropertyKind, TemplateLiteral, UnaryOperator,
};

/// Maximum depth of a native expression; deeper ones are evaluated in the sandbox.
const DEPTH: usize = 64;

/// Inherited members of objects, lists and strings; they are functions.
const INHERITED: [&str; 11] = [
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
const METHODS: [&str; 40] = [
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
pub(super) type Names<'n> = &'n dyn Fn(&str) -> Option<Js>;

/// Supplies the value of calls and fragments that are known at compile time.
pub(super) type Known<'n> = &'n dyn Fn(&Expression<'_>) -> Option<Js>;

/// Converts expressions.
pub(super) struct Native<'n> {
    pub(super) names: Names<'n>,
    pub(super) known: Known<'n>,
}

impl Native<'_> {
    /// The native form of an expression; `None` if it needs the sandbox.
    pub(super) fn convert(&self, expression: &Expression<'_>) -> Option<Js> {
        self.at(expression, 0).filter(|js| is_exact(js, true))
    }

    fn boxed(&self, expression: &Expression<'_>, depth: usize) -> Option<Box<Js>> {
        self.at(expression, depth + 1).map(Box::new)
    }

    fn at(&self, expression: &Expression<'_>, depth: usize) -> Option<Js> {
        if depth > DEPTH {
            return None;
        }
        if let Some(known) = (self.known)(expression) {
            return Some(known);
        }
        Some(match expression {
            Expression::BooleanLiteral(literal) => Js::Literal(literal.value.into()),
            Expression::NullLiteral(_) => Js::Literal(Value::Null),
            Expression::NumericLiteral(literal) => number(literal.value),
            Expression::StringLiteral(literal) if !literal.lone_surrogates => {
                Js::Literal(literal.value.as_str().into())
            }
            Expression::TemplateLiteral(template) => self.template(template, depth)?,
            Expression::Identifier(name) => (self.names)(name.name.as_str())?,
            Expression::ArrayExpression(list) => {
                let items = list.elements.iter().map(|element| self.item(element, depth));
                Js::List(items.collect::<Option<_>>()?)
            }
            Expression::ObjectExpression(object) => self.object(object, depth)?,
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
                Js::Unary(operator, self.boxed(&unary.argument, depth)?)
            }
            Expression::BinaryExpression(binary) => {
                let (left, right) = (self.boxed(&binary.left, depth)?, self.boxed(&binary.right, depth)?);
                Js::Binary(operator(binary.operator)?, left, right)
            }
            Expression::LogicalExpression(logical) => {
                let operator = match logical.operator {
                    LogicalOperator::And => Logic::And,
                    LogicalOperator::Or => Logic::Or,
                    LogicalOperator::Coalesce => Logic::Nullish,
                };
                Js::Logic(operator, self.boxed(&logical.left, depth)?, self.boxed(&logical.right, depth)?)
            }
            Expression::ConditionalExpression(choice) => {
                let part = |part| self.at(part, depth + 1);
                Js::Choice(Box::new([part(&choice.test)?, part(&choice.consequent)?, part(&choice.alternate)?]))
            }
            Expression::ChainExpression(chain) => match &chain.expression {
                ChainElement::CallExpression(_) | ChainElement::TSNonNullExpression(_) => return None,
                element => Js::Chain(Box::new(self.member(element.as_member_expression()?, depth)?)),
            },
            Expression::ParenthesizedExpression(inner) => self.at(&inner.expression, depth + 1)?,
            other => self.member(other.as_member_expression()?, depth)?,
        })
    }

    fn template(&self, template: &TemplateLiteral<'_>, depth: usize) -> Option<Js> {
        let mut parts = Vec::new();
        let mut values = template.expressions.iter();
        for quasi in &template.quasis {
            let text = quasi.value.cooked.as_ref()?;
            if !text.is_empty() {
                parts.push(Js::Literal(text.as_str().into()));
            }
            if let Some(value) = values.next() {
                parts.push(self.at(value, depth + 1)?);
            }
        }
        Some(Js::Template(parts))
    }

    fn item(&self, element: &ArrayExpressionElement<'_>, depth: usize) -> Option<Item> {
        match element {
            ArrayExpressionElement::SpreadElement(spread) => Some(Item::Spread(self.at(&spread.argument, depth + 1)?)),
            ArrayExpressionElement::Elision(_) => None,
            element => Some(Item::One(self.at(element.as_expression()?, depth + 1)?)),
        }
    }

    fn object(&self, object: &ObjectExpression<'_>, depth: usize) -> Option<Js> {
        let property = |property: &ObjectPropertyKind<'_>| match property {
            ObjectPropertyKind::SpreadProperty(spread) => Some(Property::Spread(self.at(&spread.argument, depth + 1)?)),
            ObjectPropertyKind::ObjectProperty(pair) => {
                if pair.method || pair.kind != PropertyKind::Init {
                    return None;
                }
                let key = match &pair.key {
                    key if pair.computed => self.at(key.as_expression()?, depth + 1)?,
                    key => Js::Literal(static_key(key)?.into()),
                };
                Some(Property::Pair(key, self.at(&pair.value, depth + 1)?))
            }
        };
        Some(Js::Object(object.properties.iter().map(property).collect::<Option<_>>()?))
    }

    fn member(&self, member: &MemberExpression<'_>, depth: usize) -> Option<Js> {
        let (object, key) = match member {
            MemberExpression::StaticMemberExpression(member) => {
                let name = member.property.name.as_str();
                if INHERITED.contains(&name) || METHODS.contains(&name) {
                    return None;
                }
                (&member.object, Js::Literal(name.into()))
            }
            MemberExpression::ComputedMemberExpression(member) => {
                (&member.object, self.at(&member.expression, depth + 1)?)
            }
            MemberExpression::PrivateFieldExpression(_) => return None,
        };
        Some(Js::Member(self.boxed(object, depth)?, Box::new(key), member.optional()))
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
                && !items.iter().any(|item| matches!(item, Item::One(js) | Item::Spread(js) if is_markdown(js)))
                && items.iter().all(|item| matches!(item, Item::One(js) | Item::Spread(js) if is_exact(js, true)))
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
        Js::List(items) => items.iter().any(|item| matches!(item, Item::One(js) | Item::Spread(js) if is_markdown(js))),
        _ => false,
    }
}

/// The name of a key that is not computed; `None` for keys that need the sandbox.
pub(super) fn static_key(key: &PropertyKey<'_>) -> Option<String> {
    let name = key.static_name()?.into_owned();
    (name != "__proto__").then_some(name)
}

fn number(value: f64) -> Js {
    match Number::from_f64(value) {
        Some(number) => Js::Literal(Value::Number(number)),
        None => Js::Special(value),
    }
}

fn operator(operator: BinaryOperator) -> Option<Binary> {
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
