//! A native evaluator for a subset of JavaScript: paths, literals, templates, comparisons, logic and arithmetic, with
//! JavaScript's results. Conversions are in `convert`; those that schemas ask for in `conversion`.

mod conversion;
mod convert;

use std::sync::Arc;

use crate::code::Code;
use crate::error::StepFailure;
use crate::expr::{Lookup, VisitName};
use crate::value::{Map, Number, Value};

pub use conversion::{
    CONVERSIONS_KEY, STRICT_CONVERSION, add_catch, add_check, add_conversion, apply_conversions, find_catch,
    hide_conversions, is_conversion, remove_catch, reveal_checks,
};
use convert::{Datum, compare_values, loosely_equal, strictly_equal, to_int32, to_number, to_property_key, to_text};

/// An expression of the supported subset.
#[derive(Clone, Debug, PartialEq)]
pub enum Js {
    /// The value of a literal expression.
    Literal(Value),
    /// `undefined`.
    Undefined,
    /// A non-finite number: `NaN`, `Infinity`.
    Special(f64),
    /// A name in scope.
    Name(Arc<str>),
    /// A template literal.
    Template(Vec<Js>),
    /// An array literal; items may be spread.
    List(Vec<ListItem>),
    /// An object literal.
    Object(Vec<Property>),
    /// Member access: `a.b`, `a[b]`; the flag marks the optional form `a?.b`.
    Member(Box<Js>, Box<Js>, bool),
    /// The boundary of the short circuit of a `?.` inside.
    Chain(Box<Js>),
    /// A unary operator.
    Unary(Unary, Box<Js>),
    /// A binary operator.
    Binary(Binary, Box<Js>, Box<Js>),
    /// `&&`, `||` or `??`.
    Logic(Logic, Box<Js>, Box<Js>),
    /// `a ? b : c`.
    Choice(Box<[Js; 3]>),
    /// A value that is computed by code of a front end.
    Computed(Computed),
    /// An expression with its place in the source, for error messages.
    Placed(Box<Js>, Arc<ExpressionPlace>),
}

/// A value that front ends compute themselves, for literals that JavaScript does not have.
pub trait Compute: std::fmt::Debug + Send + Sync {
    /// The value in `scope`. Fails if the expression throws.
    fn compute(&self, scope: &dyn Lookup) -> Result<Value, StepFailure>;

    /// Calls `visit` with every name that the value depends on.
    fn visit_names(&self, visit: &mut VisitName<'_>);
}

/// A shared [`Compute`]; equal only to itself.
#[derive(Clone, Debug)]
pub struct Computed(pub Arc<dyn Compute>);

impl PartialEq for Computed {
    fn eq(&self, other: &Computed) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// An item of an array literal.
#[derive(Clone, Debug, PartialEq)]
pub enum ListItem {
    /// A single value.
    One(Js),
    /// All items of a value.
    Spread(Js),
}

/// A property of an object literal.
#[derive(Clone, Debug, PartialEq)]
pub enum Property {
    /// A key with its value.
    Pair(Js, Js),
    /// All entries of another value.
    Spread(Js),
}

/// Unary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Unary {
    Minus,
    Plus,
    Not,
    BitNot,
    TypeOf,
    Void,
}

/// Binary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
    Equal,
    NotEqual,
    Same,
    NotSame,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    ShiftRightZero,
}

/// Operators that may skip their right side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Logic {
    And,
    Or,
    Nullish,
}

/// The place of an expression in the source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExpressionPlace {
    /// File, line and column: `main.md:3:7`.
    pub at: String,
    /// The expression.
    pub source: String,
}

/// The reason why evaluation stopped without a value.
enum Stop {
    /// A `?.` found nothing.
    Short,
    /// Evaluation failed.
    Error(StepFailure),
}

type Evaluated = Result<Datum, Stop>;

impl Js {
    /// The value in `scope`; `None` is `undefined`. A non-finite number becomes its text. Fails with `FL1037` where
    /// JavaScript throws an error.
    pub fn evaluate(&self, scope: &dyn Lookup) -> Result<Option<Value>, StepFailure> {
        Ok(match self.evaluate_datum(scope)? {
            Datum::Undefined => None,
            Datum::Number(number) => Some(match Number::from_f64(number) {
                Some(number) => Value::Number(number),
                None => convert::format_number(number).into(),
            }),
            Datum::Value(value) => Some(value),
        })
    }

    /// Whether the value is truthy. Fails as the evaluation does, for example on a property of `undefined`.
    pub fn is_true(&self, scope: &dyn Lookup) -> Result<bool, StepFailure> {
        self.evaluate_datum(scope).map(|operand| operand.is_truthy())
    }

    fn evaluate_datum(&self, scope: &dyn Lookup) -> Result<Datum, StepFailure> {
        match self.evaluate_part(scope) {
            Ok(operand) => Ok(operand),
            Err(Stop::Short) => Ok(Datum::Undefined),
            Err(Stop::Error(error)) => Err(error),
        }
    }

    fn evaluate_part(&self, scope: &dyn Lookup) -> Evaluated {
        Ok(match self {
            Js::Literal(value) => Datum::from_value(value.clone()),
            Js::Undefined => Datum::Undefined,
            Js::Special(number) => Datum::Number(*number),
            Js::Name(name) => scope.lookup_name(name).cloned().map_or(Datum::Undefined, Datum::from_value),
            Js::Template(parts) => {
                let mut text = String::new();
                for part in parts {
                    text.push_str(&to_text(&part.evaluate_part(scope)?));
                }
                Datum::Value(text.into())
            }
            Js::List(items) => evaluate_list(items, scope)?,
            Js::Object(properties) => evaluate_object(properties, scope)?,
            Js::Member(object, key, optional) => {
                let object = object.evaluate_part(scope)?;
                if *optional && object.is_nullish() {
                    return Err(Stop::Short);
                }
                let key = to_property_key(&key.evaluate_part(scope)?);
                read_member(&object, &key)?
            }
            Js::Chain(inner) => match inner.evaluate_part(scope) {
                Err(Stop::Short) => Datum::Undefined,
                evaluated => evaluated?,
            },
            Js::Unary(operator, inner) => apply_unary(*operator, &inner.evaluate_part(scope)?),
            Js::Binary(operator, left, right) => {
                apply_binary(*operator, &left.evaluate_part(scope)?, &right.evaluate_part(scope)?)
            }
            Js::Logic(operator, left, right) => {
                let left = left.evaluate_part(scope)?;
                let decided = match operator {
                    Logic::And => !left.is_truthy(),
                    Logic::Or => left.is_truthy(),
                    Logic::Nullish => !left.is_nullish(),
                };
                if decided { left } else { right.evaluate_part(scope)? }
            }
            Js::Choice(parts) => {
                let [test, yes, no] = &**parts;
                if test.evaluate_part(scope)?.is_truthy() {
                    yes.evaluate_part(scope)?
                } else {
                    no.evaluate_part(scope)?
                }
            }
            Js::Computed(computed) => Datum::Value(computed.0.compute(scope).map_err(Stop::Error)?),
            Js::Placed(inner, place) => match inner.evaluate_part(scope) {
                Err(Stop::Error(error)) => return Err(Stop::Error(place.locate_error(error))),
                evaluated => evaluated?,
            },
        })
    }
}

impl ExpressionPlace {
    /// Adds the place and the expression to the front of the message, unless it already names an expression.
    pub fn locate_error(&self, mut error: StepFailure) -> StepFailure {
        if matches!(error.code, Code::ExpressionFailed | Code::ScriptLimit)
            && !error.message.contains("in the expression {")
        {
            error.message = format!("{}: {} in the expression {{{}}}", self.at, error.message, self.source);
        }
        error
    }
}

fn evaluate_list(items: &[ListItem], scope: &dyn Lookup) -> Evaluated {
    let mut list = Vec::with_capacity(items.len());
    for item in items {
        match item {
            ListItem::One(js) => list.push(js.evaluate_part(scope)?.into_value()),
            ListItem::Spread(js) => match js.evaluate_part(scope)? {
                Datum::Value(Value::List(spread)) => list.extend(spread.iter().cloned()),
                Datum::Value(Value::String(text)) => list.extend(text.chars().map(|c| c.to_string().into())),
                other => {
                    return Err(expression_error(format!("{} cannot be spread into a list", describe_datum(&other))));
                }
            },
        }
    }
    Ok(Datum::Value(Value::list(list)))
}

fn evaluate_object(properties: &[Property], scope: &dyn Lookup) -> Evaluated {
    let mut map = Map::new();
    for property in properties {
        match property {
            Property::Pair(key, value) => {
                let key = to_property_key(&key.evaluate_part(scope)?);
                match value.evaluate_part(scope)? {
                    Datum::Undefined => {
                        map.shift_remove(key.as_str());
                    }
                    value => {
                        map.insert(key.into(), value.into_value());
                    }
                }
            }
            Property::Spread(js) => match js.evaluate_part(scope)? {
                Datum::Value(Value::Map(spread)) => {
                    map.extend(spread.iter().map(|(key, value)| (key.clone(), value.clone())));
                }
                Datum::Value(Value::List(items)) => {
                    map.extend(items.iter().enumerate().map(|(i, item)| (i.to_string().into(), item.clone())));
                }
                Datum::Value(Value::String(text)) => {
                    map.extend(text.chars().enumerate().map(|(i, c)| (i.to_string().into(), c.to_string().into())));
                }
                _ => {}
            },
        }
    }
    Ok(Datum::Value(map.into()))
}

/// `object[key]`.
fn read_member(object: &Datum, key: &str) -> Evaluated {
    let index = || key.parse::<usize>().ok().filter(|index| index.to_string() == key);
    let found = match object {
        Datum::Undefined | Datum::Value(Value::Null) => {
            let what = if matches!(object, Datum::Undefined) { "undefined" } else { "null" };
            return Err(expression_error(format!("cannot read {key:?} of {what}")));
        }
        Datum::Value(Value::Map(map)) => map.get(key).cloned(),
        Datum::Value(Value::List(items)) if key == "length" => Some((items.len() as i64).into()),
        Datum::Value(Value::List(items)) => index().and_then(|index| items.get(index).cloned()),
        Datum::Value(Value::String(text)) if key == "length" => Some((text.encode_utf16().count() as i64).into()),
        Datum::Value(Value::String(text)) => {
            let unit = index().and_then(|index| text.encode_utf16().nth(index));
            unit.map(|unit| String::from_utf16_lossy(&[unit]).into())
        }
        Datum::Value(Value::Blob(blob)) => match key {
            "name" => Some(blob.name.as_str().into()),
            "type" => Some(blob.mime.as_str().into()),
            _ => None,
        },
        Datum::Number(_) | Datum::Value(Value::Bool(_) | Value::Number(_)) => None,
    };
    Ok(found.map_or(Datum::Undefined, Datum::from_value))
}

fn apply_unary(operator: Unary, operand: &Datum) -> Datum {
    match operator {
        Unary::Minus => Datum::Number(-to_number(operand)),
        Unary::Plus => Datum::Number(to_number(operand)),
        Unary::Not => Datum::Value((!operand.is_truthy()).into()),
        Unary::BitNot => Datum::Number(f64::from(!to_int32(to_number(operand)))),
        Unary::TypeOf => Datum::Value(operand.type_of().into()),
        Unary::Void => Datum::Undefined,
    }
}

fn apply_binary(operator: Binary, left: &Datum, right: &Datum) -> Datum {
    let numbers = |f: fn(f64, f64) -> f64| Datum::Number(f(to_number(left), to_number(right)));
    let bits =
        |f: fn(i32, i32) -> i32| Datum::Number(f64::from(f(to_int32(to_number(left)), to_int32(to_number(right)))));
    let truth = |value: bool| Datum::Value(value.into());
    match operator {
        Binary::Add => match (left.is_textual(), right.is_textual()) {
            (false, false) => numbers(|a, b| a + b),
            _ => Datum::Value((to_text(left) + &to_text(right)).into()),
        },
        Binary::Subtract => numbers(|a, b| a - b),
        Binary::Multiply => numbers(|a, b| a * b),
        Binary::Divide => numbers(|a, b| a / b),
        Binary::Remainder => numbers(|a, b| a % b),
        Binary::Power => numbers(convert::raise_to_power),
        Binary::Equal => truth(loosely_equal(left, right)),
        Binary::NotEqual => truth(!loosely_equal(left, right)),
        Binary::Same => truth(strictly_equal(left, right)),
        Binary::NotSame => truth(!strictly_equal(left, right)),
        Binary::Less => truth(compare_values(left, right).is_some_and(std::cmp::Ordering::is_lt)),
        Binary::LessOrEqual => truth(compare_values(left, right).is_some_and(std::cmp::Ordering::is_le)),
        Binary::Greater => truth(compare_values(left, right).is_some_and(std::cmp::Ordering::is_gt)),
        Binary::GreaterOrEqual => truth(compare_values(left, right).is_some_and(std::cmp::Ordering::is_ge)),
        Binary::BitAnd => bits(|a, b| a & b),
        Binary::BitOr => bits(|a, b| a | b),
        Binary::BitXor => bits(|a, b| a ^ b),
        Binary::ShiftLeft => bits(|a, b| a.wrapping_shl(b as u32)),
        Binary::ShiftRight => bits(|a, b| a.wrapping_shr(b as u32)),
        Binary::ShiftRightZero => {
            let (left, right) = (to_int32(to_number(left)) as u32, to_int32(to_number(right)) as u32);
            Datum::Number(f64::from(left.wrapping_shr(right)))
        }
    }
}

fn describe_datum(operand: &Datum) -> &'static str {
    match operand {
        Datum::Undefined => "undefined",
        Datum::Number(_) => "a number",
        Datum::Value(value) => value.kind_name(),
    }
}

fn expression_error(message: String) -> Stop {
    Stop::Error(StepFailure::new(Code::ExpressionFailed, message))
}

#[cfg(test)]
mod tests;
