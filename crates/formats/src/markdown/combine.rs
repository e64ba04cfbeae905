//! Combines JSON Schemas like the library behind `$.z`, in the shortest form.

use std::sync::Arc;

use flowloom_core::expr::js::{CONVERSIONS_KEY, add_catch, find_catch, remove_catch};
use flowloom_core::value::{Map, Value};

/// Maximum number of alternatives of the intersection of two unions: each union of a chain would double them.
const MAX_ALTERNATIVES: usize = 256;

/// The type of a schema that consists only of a primitive type and keys in `allowed_keys`.
fn primitive_type<'s>(schema: &'s Map, allowed_keys: &[&str]) -> Option<&'s Value> {
    let kind = schema.get("type")?;
    let is_one = matches!(kind.as_str(), Some("string" | "number" | "boolean" | "null"));
    let is_all = schema.keys().all(|key| &**key == "type" || allowed_keys.contains(&&**key));
    (is_one && is_all).then_some(kind)
}

/// A schema for a value of any of the members.
pub(super) fn union_schema(members: Vec<Map>) -> Map {
    let all = |key: &str| -> Option<Vec<&Value>> {
        let only = |member: &Map| member.len() == 2 && member.contains_key("type");
        members.iter().map(|member| member.get(key).filter(|_| only(member))).collect()
    };
    let kinds = unique_values(members.iter().filter_map(|member| member.get("type")));
    let kind = if let [only] = kinds.as_slice() { only.clone() } else { Value::list(kinds) };
    let values = match (all("const"), all("enum")) {
        (Some(values), _) => Some(unique_values(values.into_iter())),
        (_, Some(lists)) => Some(unique_values(lists.iter().filter_map(|list| list.as_list()).flatten())),
        _ => None,
    };
    if let Some(values) = values {
        return Map::from_iter([("type".into(), kind), ("enum".into(), Value::list(values))]);
    }
    if members.iter().all(|member| primitive_type(member, &[]).is_some()) {
        return Map::from_iter([("type".into(), kind)]);
    }
    Map::from_iter([("anyOf".into(), Value::list(members.into_iter().map(Value::from).collect()))])
}

fn unique_values<'v>(values: impl Iterator<Item = &'v Value>) -> Vec<Value> {
    let mut unique: Vec<Value> = Vec::new();
    for value in values {
        if !unique.contains(value) {
            unique.push(value.clone());
        }
    }
    unique
}

/// A schema for a list; `None` stands for items of any kind.
pub(super) fn array_schema(items: Option<Map>) -> Map {
    let items = items.map(|items| ("items".into(), items.into()));
    Map::from_iter([("type".into(), "array".into())].into_iter().chain(items))
}

/// A schema for an object with any keys: those of an enumeration, or texts with bounds, if the schema of the keys says so.
pub(super) fn record_schema(keys: Option<Map>, values: Map) -> Map {
    let mut schema = Map::from_iter([("type".into(), "object".into()), ("additionalProperties".into(), values.into())]);
    let mut keys = keys.filter(|keys| keys.get("type").and_then(Value::as_str) == Some("string")).unwrap_or_default();
    keys.retain(|name, _| !matches!(&**name, "type" | "description" | CONVERSIONS_KEY));
    if !keys.is_empty() {
        schema.insert("propertyNames".into(), keys.into());
    }
    schema
}

/// Keeps some values of an enumeration, or all but them.
pub(super) fn select_values(schema: &mut Map, named: &Value, keeps: bool) {
    let named = named.as_list().unwrap_or_default();
    let mut values = schema.get("enum").and_then(Value::as_list).unwrap_or_default().to_vec();
    values.retain(|value| named.contains(value) == keeps);
    schema.insert("enum".into(), Value::list(values));
}

/// A schema for a list with a fixed schema for each position.
pub(super) fn tuple_schema(members: Vec<Map>) -> Map {
    let count = members.len() as i64;
    Map::from_iter([
        ("type".into(), "array".into()),
        ("minItems".into(), count.into()),
        ("maxItems".into(), count.into()),
        ("prefixItems".into(), Value::list(members.into_iter().map(Value::from).collect())),
    ])
}

/// Makes a schema accept `null` as well.
pub(super) fn make_nullable(schema: &mut Map) {
    if let Some(kind) = primitive_type(schema, &["description"]).cloned() {
        schema.insert("type".into(), Value::list(vec![kind, "null".into()]));
        return;
    }
    let mut inner = std::mem::take(schema);
    let description = inner.get("description").cloned();
    let caught = remove_catch(&mut inner);
    let null = Value::map([("type", Value::from("null"))]);
    schema.insert("anyOf".into(), Value::list(vec![inner.into(), null]));
    if let Some(description) = description {
        schema.insert("description".into(), description);
    }
    if let Some(caught) = caught {
        add_catch(schema, caught);
    }
}

/// Adds the fields of another object; they override existing ones.
pub(super) fn extend_object(schema: &mut Map, more: &Map) {
    let added = more.get("properties").and_then(Value::as_map).cloned().unwrap_or_default();
    let (mut fields, mut required) = fields_and_required(schema);
    required.retain(|name| !added.contains_key(name.as_str().unwrap_or_default()));
    required.extend(more.get("required").and_then(Value::as_list).unwrap_or_default().iter().cloned());
    fields.extend(added);
    set_fields(schema, fields, required);
}

/// A schema for values that match both: objects, which have the fields of either, and unions of objects. `None` for others,
/// whose values could be converted in two ways, and for more than [`MAX_ALTERNATIVES`].
pub(super) fn intersect_schemas(left: Map, right: &Map) -> Option<Map> {
    if count_alternatives(&left).saturating_mul(count_alternatives(right)) > MAX_ALTERNATIVES {
        return None;
    }
    if let Some(members) = left.get("anyOf").and_then(Value::as_list) {
        let members = members.iter().map(|member| intersect_schemas(member.as_map()?.clone(), right));
        return members.collect::<Option<Vec<Map>>>().map(union_schema);
    }
    if let Some(members) = right.get("anyOf").and_then(Value::as_list) {
        let members = members.iter().map(|member| intersect_schemas(left.clone(), member.as_map()?));
        return members.collect::<Option<Vec<Map>>>().map(union_schema);
    }
    let is_object = |schema: &Map| schema.get("type").and_then(Value::as_str) == Some("object");
    if left == *right {
        return Some(left);
    }
    (is_object(&left) && is_object(right)).then(|| intersect_objects(left, right)).flatten()
}

/// The number of alternatives of a union, and of unions in it.
fn count_alternatives(schema: &Map) -> usize {
    let members = schema.get("anyOf").and_then(Value::as_list);
    members.map_or(1, |members| members.iter().filter_map(Value::as_map).map(count_alternatives).sum())
}

fn intersect_objects(mut left: Map, right: &Map) -> Option<Map> {
    let (mut fields, mut required) = fields_and_required(&left);
    let (added, also_required) = fields_and_required(right);
    for (name, theirs) in added {
        let field = match fields.get(&name).and_then(Value::as_map) {
            Some(mine) => intersect_schemas(mine.clone(), theirs.as_map()?)?.into(),
            None => theirs,
        };
        fields.insert(name, field);
    }
    required.retain(|name| !also_required.contains(name));
    required.extend(also_required);
    // Fields that only one of them leaves out are kept by the other.
    let rest = |schema: &Map| schema.get("additionalProperties").cloned().unwrap_or(Value::Bool(true));
    let rest = match (rest(&left), rest(right)) {
        (Value::Bool(false), other) | (other, Value::Bool(false)) => other,
        (Value::Bool(true), other) | (other, Value::Bool(true)) => other,
        (Value::Map(mine), Value::Map(theirs)) => intersect_schemas(Map::clone(&mine), &theirs)?.into(),
        _ => return None,
    };
    left.insert("additionalProperties".into(), rest);
    set_fields(&mut left, fields, required);
    Some(left)
}

/// Makes the named fields of an object required, or all of them, except those with a value of their own for what is missing.
pub(super) fn require_fields(schema: &mut Map, named: Option<&Value>) {
    let (fields, required) = fields_and_required(schema);
    let is_named = |name: &str| is_named(named, name);
    let is_filled = |field: &Value| field.get("default").is_some() || find_catch(field).is_some();
    let is_required = |name: &Arc<str>, field: &Value| {
        required.iter().any(|known| known.as_str() == Some(name)) || (is_named(name) && !is_filled(field))
    };
    let names =
        fields.iter().filter(|(name, field)| is_required(name, field)).map(|(name, _)| (&**name).into()).collect();
    set_fields(schema, fields, names);
}

/// Makes the named fields of an object optional, or all of them.
pub(super) fn release_fields(schema: &mut Map, named: Option<&Value>) {
    let (fields, mut required) = fields_and_required(schema);
    required.retain(|name| !is_named(named, name.as_str().unwrap_or_default()));
    set_fields(schema, fields, required);
}

/// Whether a mask such as `{name: true}` names a field. Without a mask, all are named.
fn is_named(mask: Option<&Value>, field: &str) -> bool {
    mask.is_none_or(|mask| mask.get(field).is_some_and(Value::is_truthy))
}

/// Makes every field optional, also those of objects within.
pub(super) fn make_fields_optional(schema: &mut Map) {
    schema.shift_remove("required");
    let within = |value: &Value| match value {
        Value::Map(map) => {
            let mut inner = Map::clone(map);
            make_fields_optional(&mut inner);
            inner.into()
        }
        other => other.clone(),
    };
    for key in ["items", "anyOf", "prefixItems"] {
        let changed = match schema.get(key) {
            Some(Value::List(members)) => Value::list(members.iter().map(within).collect()),
            Some(member) => within(member),
            None => continue,
        };
        schema.insert(key.into(), changed);
    }
    if let Some(fields) = schema.get("properties").and_then(Value::as_map) {
        let fields: Map = fields.iter().map(|(name, field)| (name.clone(), within(field))).collect();
        schema.insert("properties".into(), fields.into());
    }
}

/// A schema for one of several values.
pub(super) fn enum_schema(values: &[Value]) -> Map {
    let kind = |value: &Value| Value::from(if value.as_str().is_some() { "string" } else { "number" });
    let kinds = unique_values(values.iter().map(kind).collect::<Vec<_>>().iter());
    let kind = if let [only] = kinds.as_slice() { only.clone() } else { Value::list(kinds) };
    Map::from_iter([("type".into(), kind), ("enum".into(), Value::list(values.to_vec()))])
}

/// Keeps the named fields (`keeps`), or all others.
pub(super) fn select_fields(schema: &mut Map, named: &Value, keeps: bool) {
    let (mut fields, mut required) = fields_and_required(schema);
    fields.retain(|key, _| named.get(key).is_some_and(Value::is_truthy) == keeps);
    required.retain(|key| fields.contains_key(key.as_str().unwrap_or_default()));
    set_fields(schema, fields, required);
}

fn fields_and_required(schema: &Map) -> (Map, Vec<Value>) {
    let fields = schema.get("properties").and_then(Value::as_map).cloned().unwrap_or_default();
    (fields, schema.get("required").and_then(Value::as_list).unwrap_or_default().to_vec())
}

fn set_fields(schema: &mut Map, fields: Map, required: Vec<Value>) {
    let closed = schema.shift_remove("additionalProperties");
    schema.shift_remove("required");
    schema.insert("properties".into(), fields.into());
    if !required.is_empty() {
        schema.insert("required".into(), Value::list(required));
    }
    if let Some(closed) = closed {
        schema.insert("additionalProperties".into(), closed);
    }
}
