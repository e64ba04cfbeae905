//! Schemas of generated objects: literal JSON Schema, or the builder `$.z`.

use flowloom_core::expr::js::{CONVERSIONS_KEY, STRICT_CONVERSION, add_catch, add_conversion, is_conversion};
use flowloom_core::render;
use flowloom_core::value::{Map, Number, Value};
use oxc_allocator::Allocator;
use oxc_ast::ast::{Argument, ArrayExpressionElement, Expression, ObjectPropertyKind, UnaryOperator};
use oxc_parser::Parser;
use oxc_span::{GetSpan, SourceType};

use super::combine;
use super::native::{static_key, written_number};
use super::schema_names::{describe_unknown_builder, describe_unknown_method};
use super::text_patterns::{add_address, add_date_time, add_form, add_part, add_regex};

/// An error in a schema, with its range.
pub(super) struct SchemaError {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) message: String,
}

type SchemaResult<T> = Result<T, SchemaError>;

/// The JSON Schema that the text of an expression denotes; `None` if it denotes none, or only with constants of the frontmatter.
pub fn read_written_schema(expression: &str) -> Option<Value> {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, expression, SourceType::mjs()).parse_expression().ok()?;
    let reader = SchemaReader { data: &|_| None };
    reader.read_schema(&parsed).ok().filter(|schema| schema.as_map().is_some())
}

/// A schema under construction.
struct PartialSchema {
    schema: Map,
    is_optional: bool,
}

/// Reads schemas; `data` resolves the constants that they may refer to.
pub(super) struct SchemaReader<'d> {
    pub(super) data: &'d dyn Fn(&str) -> Option<Value>,
}

impl SchemaReader<'_> {
    /// The JSON Schema that an expression denotes.
    pub(super) fn read_schema(&self, expression: &Expression<'_>) -> SchemaResult<Value> {
        match expression {
            Expression::CallExpression(_) => Ok(self.read_builder(expression)?.schema.into()),
            _ => self.read_constant(expression),
        }
    }

    /// The value of a literal expression.
    pub(super) fn read_constant(&self, expression: &Expression<'_>) -> SchemaResult<Value> {
        Ok(match expression {
            Expression::StringLiteral(literal) => literal.value.as_str().into(),
            Expression::NumericLiteral(literal) => {
                written_number(literal).map_or_else(|| number_value(literal.value), Value::Number)
            }
            Expression::BooleanLiteral(literal) => literal.value.into(),
            Expression::NullLiteral(_) => Value::Null,
            Expression::TemplateLiteral(template) if template.expressions.is_empty() => {
                let text =
                    template.quasis.iter().filter_map(|quasi| quasi.value.cooked.as_ref()).map(|text| text.as_str());
                text.collect::<String>().into()
            }
            Expression::UnaryExpression(unary) if unary.operator == UnaryOperator::UnaryNegation => {
                match self.read_constant(&unary.argument)? {
                    Value::Number(value) => Number::parse(&format!("-{}", value.to_text()))
                        .map_or_else(|| number_value(-value.as_f64()), Value::Number),
                    _ => return Err(schema_error(expression, "this must be a number")),
                }
            }
            Expression::ArrayExpression(list) => {
                let item = |element: &ArrayExpressionElement<'_>| match element.as_expression() {
                    Some(item) => self.read_constant(item),
                    None => Err(schema_error(expression, "a list in a schema holds only plain values")),
                };
                Value::list(list.elements.iter().map(item).collect::<SchemaResult<_>>()?)
            }
            Expression::ObjectExpression(object) => {
                let mut map = Map::new();
                for property in &object.properties {
                    let (key, value) =
                        read_pair(property).ok_or_else(|| schema_error(expression, "write keys with values here"))?;
                    let is_schema = matches!(value, Expression::CallExpression(_));
                    let value = if is_schema { self.read_schema(value)? } else { self.read_constant(value)? };
                    map.insert(key.into(), value);
                }
                map.into()
            }
            Expression::Identifier(name) => (self.data)(name.name.as_str()).ok_or_else(|| {
                schema_error(expression, "only constants of the frontmatter's data can be named here")
            })?,
            _ => {
                return Err(schema_error(
                    expression,
                    "this value is known only at run time; a schema must be constant",
                ));
            }
        })
    }

    fn read_builder(&self, expression: &Expression<'_>) -> SchemaResult<PartialSchema> {
        let Expression::CallExpression(call) = expression else {
            let value = self.read_constant(expression)?;
            let schema = value.as_map().cloned().ok_or_else(|| schema_error(expression, "this is not a schema"))?;
            return Ok(PartialSchema { schema, is_optional: false });
        };
        let Expression::StaticMemberExpression(member) = &call.callee else {
            return Err(schema_error(expression, "a schema is built with $.z, for example $.z.string()"));
        };
        let name = member.property.name.as_str();
        let arguments: Vec<&Expression<'_>> = call.arguments.iter().filter_map(Argument::as_expression).collect();
        if is_builder(&member.object) {
            return self.read_base(name, &arguments, expression);
        }
        if is_coercing_builder(&member.object) {
            let mut built = self.read_base(name, &arguments, expression)?;
            if is_conversion(name) {
                add_conversion(&mut built.schema, name.into());
            }
            return Ok(built);
        }
        let mut built = self.read_builder(&member.object)?;
        self.apply_method(name, &arguments, &mut built, expression)?;
        Ok(built)
    }

    /// The schema of `$.z.name(…)`.
    fn read_base(&self, name: &str, arguments: &[&Expression<'_>], at: &Expression<'_>) -> SchemaResult<PartialSchema> {
        if let ("optional" | "nullable" | "nullish", Some(inner)) = (name, arguments.first()) {
            let mut built = self.read_builder(inner)?;
            self.apply_method(name, &[], &mut built, at)?;
            return Ok(built);
        }
        let mut schema = self.plain_schema(name, arguments, at)?;
        // The options object next to the parts of the schema.
        let last = arguments.last().filter(|_| name != "object" || arguments.len() > 1);
        if let Some(options @ Expression::ObjectExpression(_)) = last
            && let Ok(options) = self.read_constant(options)
            && let Some(description) = options.get("description").filter(|options| options.as_str().is_some())
        {
            schema.insert("description".into(), description.clone());
        }
        // A field of any type may be missing as well.
        Ok(PartialSchema { schema, is_optional: matches!(name, "any" | "unknown" | "undefined" | "void") })
    }

    /// The schema without its description.
    fn plain_schema(&self, name: &str, arguments: &[&Expression<'_>], at: &Expression<'_>) -> SchemaResult<Map> {
        let first =
            || arguments.first().copied().ok_or_else(|| schema_error(at, &format!("{name}() needs an argument")));
        let plain = |kind: &str| Ok(Map::from_iter([("type".into(), kind.into())]));
        match name {
            "string" | "number" | "boolean" | "null" => plain(name),
            "int" => plain("integer"),
            "any" | "unknown" => Ok(Map::new()),
            "never" | "undefined" | "void" => Ok(Map::from_iter([("not".into(), Map::new().into())])),
            "array" => Ok(combine::array_schema((!is_any(first()?)).then_some(self.read_builder(first()?)?.schema))),
            "object" => self.object_schema(first()?),
            "nativeEnum" => {
                let values = self.read_constant(first()?)?;
                let values: Vec<Value> = values.as_map().iter().flat_map(|map| map.values()).cloned().collect();
                if values.is_empty() || !values.iter().all(|value| matches!(value, Value::String(_) | Value::Number(_)))
                {
                    return Err(schema_error(at, "nativeEnum() needs an object whose values are strings or numbers"));
                }
                Ok(combine::enum_schema(&values))
            }
            "intersection" => match arguments {
                [left, right, ..] => self.read_intersection(self.read_builder(left)?.schema, right, at),
                _ => Err(schema_error(at, "intersection() needs two schemas")),
            },
            "enum" => {
                let values = self.read_constant(first()?)?;
                if values.as_list().is_none_or(|list| list.is_empty() || list.iter().any(|v| v.as_str().is_none())) {
                    return Err(schema_error(at, "enum() needs a list of strings"));
                }
                Ok(Map::from_iter([("type".into(), "string".into()), ("enum".into(), values)]))
            }
            "literal" => {
                let value = self.read_constant(first()?)?;
                let kind = match &value {
                    Value::String(_) => "string",
                    Value::Number(_) => "number",
                    Value::Bool(_) => "boolean",
                    Value::Null => "null",
                    _ => return Err(schema_error(at, "literal() needs a plain value")),
                };
                Ok(Map::from_iter([("type".into(), kind.into()), ("const".into(), value)]))
            }
            "date" => Ok(Map::from_iter([("type".into(), "string".into()), ("format".into(), "date-time".into())])),
            "union" | "discriminatedUnion" | "tuple" => {
                let Some(Expression::ArrayExpression(list)) = arguments.last().copied() else {
                    return Err(schema_error(at, &format!("{name}() needs a list of schemas")));
                };
                let member = |element: &ArrayExpressionElement<'_>| match element.as_expression() {
                    Some(member) => Ok(self.read_builder(member)?.schema),
                    None => Err(schema_error(at, &format!("{name}() needs a list of schemas"))),
                };
                let members = list.elements.iter().map(member).collect::<SchemaResult<Vec<Map>>>()?;
                Ok(if name == "tuple" { combine::tuple_schema(members) } else { combine::union_schema(members) })
            }
            "record" => {
                let values = arguments.last().copied().ok_or_else(|| schema_error(at, "record() needs a schema"))?;
                let keys = arguments.first().filter(|_| arguments.len() > 1);
                let keys = keys.map(|keys| self.read_builder(keys)).transpose()?;
                Ok(combine::record_schema(keys.map(|keys| keys.schema), self.read_builder(values)?.schema))
            }
            _ => Err(schema_error(at, &describe_unknown_builder(name))),
        }
    }

    fn object_schema(&self, fields: &Expression<'_>) -> SchemaResult<Map> {
        let Expression::ObjectExpression(object) = fields else {
            return Err(schema_error(fields, "object() needs fields: object({ name: $.z.string() })"));
        };
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for property in &object.properties {
            let (key, value) =
                read_pair(property).ok_or_else(|| schema_error(fields, "write fields as name: schema"))?;
            let field = self.read_builder(value)?;
            if !field.is_optional {
                required.push(key.as_str().into());
            }
            properties.insert(key.into(), field.schema.into());
        }
        let mut schema = Map::from_iter([("type".into(), "object".into()), ("properties".into(), properties.into())]);
        if !required.is_empty() {
            schema.insert("required".into(), Value::list(required));
        }
        schema.insert("additionalProperties".into(), false.into());
        Ok(schema)
    }

    /// Applies `.name(…)` to a schema.
    fn apply_method(
        &self,
        name: &str,
        arguments: &[&Expression<'_>],
        built: &mut PartialSchema,
        at: &Expression<'_>,
    ) -> SchemaResult<()> {
        let first = || {
            let first =
                arguments.first().copied().ok_or_else(|| schema_error(at, &format!("{name}() needs an argument")))?;
            self.read_constant(first)
        };
        let kind = built.schema.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        if self.apply_wrapper(name, &kind, arguments, &mut built.schema, at)? {
            // A list of what may be missing is not missing itself.
            built.is_optional &= name != "array";
            return Ok(());
        }
        let mut set = |key: &str, value: Value| {
            built.schema.insert(key.into(), value);
        };
        if let Some(keywords) = list_bounds(name, &kind) {
            let bound = first()?;
            keywords.iter().for_each(|keyword| set(keyword, bound.clone()));
            return Ok(());
        }
        match (name, kind.as_str()) {
            ("optional", _) => built.is_optional = true,
            ("nullable", _) => combine::make_nullable(&mut built.schema),
            ("nullish", _) => {
                built.is_optional = true;
                combine::make_nullable(&mut built.schema);
            }
            ("default", _) => {
                set("default", first()?);
                built.is_optional = true;
            }
            ("catch", _) => {
                add_catch(&mut built.schema, first()?);
                built.is_optional = true;
            }
            ("describe", _) => set("description", first()?),
            ("int", _) => set("type", "integer".into()),
            ("trim" | "toLowerCase" | "toUpperCase", "string") => add_conversion(&mut built.schema, name.into()),
            ("finite" | "safe" | "readonly" | "brand", _) => {}
            ("startsWith" | "endsWith" | "includes", "string") => add_part(&mut built.schema, name, &first()?),
            ("positive", _) => set("exclusiveMinimum", 0.into()),
            ("nonnegative", _) => set("minimum", 0.into()),
            ("negative", _) => set("exclusiveMaximum", 0.into()),
            ("nonpositive", _) => set("maximum", 0.into()),
            ("nonempty", "array") => set("minItems", 1.into()),
            ("nonempty", _) => set("minLength", 1.into()),
            ("datetime", "string") if arguments.is_empty() => add_date_time(&mut built.schema, &Value::Null),
            ("datetime", "string") => add_date_time(&mut built.schema, &first()?),
            ("regex", "string") => match arguments.first() {
                Some(Expression::RegExpLiteral(regex)) => {
                    let (pattern, flags) = (&regex.regex.pattern.text, regex.regex.flags.to_string());
                    add_regex(&mut built.schema, pattern.as_str(), &flags);
                }
                _ => return Err(schema_error(at, "regex() needs a regular expression: /…/")),
            },
            ("strict" | "strip" | "passthrough", "object") => {
                set("additionalProperties", (name == "passthrough").into());
                built.schema.shift_remove(CONVERSIONS_KEY);
                if name == "strict" {
                    add_conversion(&mut built.schema, STRICT_CONVERSION.into());
                }
            }
            ("ip", "string") => {
                let options = arguments.first().map(|options| self.read_constant(options)).transpose()?;
                add_address(&mut built.schema, options.as_ref());
            }
            (_, "string") if add_form(&mut built.schema, name) => {}
            _ => return Err(schema_error(at, &describe_unknown_method(name))),
        }
        Ok(())
    }
}

impl SchemaReader<'_> {
    /// Applies a method that replaces the schema; `false` if `name` is not one.
    fn apply_wrapper(
        &self,
        name: &str,
        kind: &str,
        arguments: &[&Expression<'_>],
        schema: &mut Map,
        at: &Expression<'_>,
    ) -> SchemaResult<bool> {
        let first =
            || arguments.first().copied().ok_or_else(|| schema_error(at, &format!("{name}() needs an argument")));
        match (name, kind) {
            ("array", _) => {
                let is_any = read_callee_object(at).is_some_and(is_any);
                *schema = combine::array_schema((!is_any).then_some(std::mem::take(schema)));
            }
            ("or", _) => {
                *schema = combine::union_schema(vec![std::mem::take(schema), self.read_builder(first()?)?.schema])
            }
            ("and", _) => *schema = self.read_intersection(std::mem::take(schema), first()?, at)?,
            ("catchall", "object") => {
                let rest = self.read_builder(first()?)?.schema;
                schema.insert("additionalProperties".into(), rest.into());
            }
            ("exclude" | "extract", "string") if schema.contains_key("enum") => {
                combine::select_values(schema, &self.read_constant(first()?)?, name == "extract")
            }
            ("keyof", "object") => {
                let fields = schema.get("properties").and_then(Value::as_map).cloned().unwrap_or_default();
                *schema = combine::enum_schema(&fields.keys().map(|name| (&**name).into()).collect::<Vec<_>>())
            }
            ("required" | "partial", "object") => {
                let named = arguments.first().map(|named| self.read_constant(named)).transpose()?;
                let change = if name == "required" { combine::require_fields } else { combine::release_fields };
                change(schema, named.as_ref())
            }
            ("deepPartial", "object") => combine::make_fields_optional(schema),
            ("extend", "object") => combine::extend_object(schema, &self.object_schema(first()?)?),
            ("merge", "object") => combine::extend_object(schema, &self.read_builder(first()?)?.schema),
            ("pick" | "omit", "object") => {
                combine::select_fields(schema, &self.read_constant(first()?)?, name == "pick")
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl SchemaReader<'_> {
    /// The intersection of a schema with another one.
    fn read_intersection(&self, left: Map, right: &Expression<'_>, at: &Expression<'_>) -> SchemaResult<Map> {
        let right = self.read_builder(right)?.schema;
        let message =
            "only objects, and unions of few objects, can be intersected, and fields of both must have the same schema";
        combine::intersect_schemas(left, &right).ok_or_else(|| schema_error(at, message))
    }
}

/// The keywords that a method with a bound sets; `None` if it is none for this type.
fn list_bounds(name: &str, kind: &str) -> Option<&'static [&'static str]> {
    Some(match (name, kind) {
        ("min" | "gte", "number" | "integer") => &["minimum"],
        ("max" | "lte", "number" | "integer") => &["maximum"],
        ("gt", _) => &["exclusiveMinimum"],
        ("lt", _) => &["exclusiveMaximum"],
        ("multipleOf" | "step", _) => &["multipleOf"],
        ("min", "string") => &["minLength"],
        ("max", "string") => &["maxLength"],
        ("min", "array") => &["minItems"],
        ("max", "array") => &["maxItems"],
        ("length", "array") => &["minItems", "maxItems"],
        ("length", _) => &["minLength", "maxLength"],
        _ => return None,
    })
}

/// The schema that a method is called on.
fn read_callee_object<'e, 'a>(call: &'e Expression<'a>) -> Option<&'e Expression<'a>> {
    let Expression::CallExpression(call) = call else { return None };
    let Expression::StaticMemberExpression(member) = &call.callee else { return None };
    Some(&member.object)
}

/// Whether an expression is `$.z.any()`. As the schema of the items of a list, it is left out.
fn is_any(expression: &Expression<'_>) -> bool {
    let Expression::CallExpression(call) = expression else { return false };
    let Expression::StaticMemberExpression(member) = &call.callee else { return false };
    match member.property.name.as_str() {
        "any" => is_builder(&member.object),
        "describe" => is_any(&member.object),
        _ => false,
    }
}

/// Whether an expression is `$.z.coerce`, which converts answers to its types.
fn is_coercing_builder(expression: &Expression<'_>) -> bool {
    let Expression::StaticMemberExpression(member) = expression else { return false };
    member.property.name == "coerce" && is_builder(&member.object)
}

/// Whether an expression is `$.z`, or the same on a named helper.
fn is_builder(expression: &Expression<'_>) -> bool {
    let Expression::StaticMemberExpression(member) = expression else { return false };
    let is_helper = matches!(&member.object, Expression::Identifier(name) if name.name.starts_with('$'));
    is_helper && member.property.name == "z"
}

fn read_pair<'e, 'a>(property: &'e ObjectPropertyKind<'a>) -> Option<(String, &'e Expression<'a>)> {
    let ObjectPropertyKind::ObjectProperty(property) = property else { return None };
    let is_plain = !property.computed && !property.method;
    is_plain.then(|| Some((static_key(&property.key)?, &property.value))).flatten()
}

fn number_value(value: f64) -> Value {
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

fn schema_error(expression: &Expression<'_>, message: &str) -> SchemaError {
    let span = expression.span();
    SchemaError { start: span.start as usize, end: span.end as usize, message: message.to_owned() }
}

/// The schema of one of several strings.
pub(super) fn one_of(values: Value) -> Value {
    Value::map([("type", Value::from("string")), ("enum", values)])
}

/// Adds the name and the description of a schema as its `title` and `description`.
pub(super) fn add_title(schema: Value, name: Option<Value>, description: Option<Value>) -> Value {
    let mut map = schema.as_map().cloned().unwrap_or_default();
    for (key, value) in [("title", name), ("description", description)] {
        if let Some(value) = value {
            map.insert(key.into(), render::render_text(&value, render::TextStyle::JavaScript).into());
        }
    }
    map.into()
}
