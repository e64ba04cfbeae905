//! How much work it is to hold a value to a JSON Schema. A validator applies a subschema again for every way that leads to
//! it, so a small schema whose references branch can take years, and a long chain of references can exhaust the stack.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// Longest chain of subschemas that a validator may follow.
const MAX_DEPTH: usize = 1_000;

/// Number of applications of subschemas that are harmless, however often they repeat each other.
const MAX_APPLICATIONS: u64 = 300_000;

/// How often a subschema may be applied to the same part of the value beyond that, on average.
const MAX_REPETITIONS: u64 = 64;

/// Number of pairs of a subschema and a part of the value that are looked at.
const MAX_PAIRS: usize = 1_000_000;

/// Number of subschemas with the same name among which a reference may have to choose.
const MAX_NAMESAKES: usize = 8;

/// Keywords whose schemas apply to the same value.
const IN_PLACE_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
const IN_PLACE: [&str; 4] = ["not", "if", "then", "else"];
const IN_PLACE_MAPS: [&str; 2] = ["dependentSchemas", "dependencies"];

/// Keywords whose schemas apply to the elements of a list.
const OF_ITEMS: [&str; 4] = ["items", "contains", "additionalItems", "unevaluatedItems"];

/// Keywords whose schemas apply to the fields of an object that no other keyword names.
const OF_OTHER_FIELDS: [&str; 2] = ["additionalProperties", "unevaluatedProperties"];

/// Keywords with references.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Keywords with names that references can have, and those of them that pointers are relative to.
const NAMES: [&str; 4] = ["$anchor", "$dynamicAnchor", "$id", "id"];
const IDS: [&str; 2] = ["$id", "id"];

/// Why a value is not held to a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaTooComplex {
    /// A chain of subschemas is too long.
    #[error("the schema is nested too deeply: more than {MAX_DEPTH} subschemas lead to each other")]
    Depth,
    /// There are too many ways through the schema.
    #[error("the schema is too complex for this value: its references branch again and again")]
    Work,
}

/// Fails if validating any value could exhaust the stack. For a schema before it is compiled.
pub fn check_schema_depth(schema: &Value) -> Result<(), SchemaTooComplex> {
    Subschemas::new(schema)?.measure().map(drop)
}

/// Fails if validating `value` would take too long or exhaust the stack.
pub fn check_schema_work(schema: &Value, value: &Value) -> Result<(), SchemaTooComplex> {
    let subschemas = Subschemas::new(schema)?;
    let (measured, distinct) = subschemas.measure()?;
    if !measured.is_recursive && measured.nodes <= MAX_REPETITIONS * distinct {
        return Ok(());
    }
    let mut count = WorkCount { subschemas: &subschemas, pairs: HashMap::new() };
    let applications = count.count_pair(schema, value, 0)?;
    let repetitions = applications / (count.pairs.len() as u64).max(1);
    match applications > MAX_APPLICATIONS && repetitions > MAX_REPETITIONS {
        true => Err(SchemaTooComplex::Work),
        false => Ok(()),
    }
}

/// A schema, with what its references lead to.
struct Subschemas<'a> {
    root: &'a Value,
    /// What the references of a subschema lead to, by its address.
    referenced: HashMap<*const Value, Vec<&'a Value>>,
}

/// The names of subschemas, and the references to them.
#[derive(Default)]
struct References<'a> {
    /// Subschemas by the last parts of their anchors and ids.
    named: HashMap<&'a str, Vec<&'a Value>>,
    found: Vec<Reference<'a>>,
}

/// A reference of a subschema.
struct Reference<'a> {
    of: &'a Value,
    text: &'a str,
    /// The innermost subschema with an id around it, which pointers are relative to.
    base: &'a Value,
}

/// The size of a schema if every reference is replaced by what it leads to.
#[derive(Clone, Copy, Default)]
struct Measured {
    nodes: u64,
    depth: usize,
    is_recursive: bool,
}

impl<'a> Subschemas<'a> {
    fn new(root: &'a Value) -> Result<Subschemas<'a>, SchemaTooComplex> {
        let references = References::collect(root);
        let mut referenced: HashMap<*const Value, Vec<&'a Value>> = HashMap::new();
        for reference in &references.found {
            let targets = references.resolve(reference, root)?;
            referenced.entry(std::ptr::from_ref(reference.of)).or_default().extend(targets);
        }
        Ok(Subschemas { root, referenced })
    }

    /// The subschemas that apply to the same value as this one.
    fn list_in_place(&self, node: &'a Value, schema: &'a Map<String, Value>) -> Vec<&'a Value> {
        let lists = IN_PLACE_LISTS.iter().filter_map(|name| schema.get(*name)?.as_array()).flatten();
        let single = IN_PLACE.iter().filter_map(|name| schema.get(*name));
        let maps = IN_PLACE_MAPS.iter().filter_map(|name| schema.get(*name)?.as_object()).flat_map(Map::values);
        let referenced = self.referenced.get(&std::ptr::from_ref(node)).into_iter().flatten().copied();
        lists.chain(single).chain(maps).chain(referenced).collect()
    }

    /// Measures the schema. Returns the number of its distinct subschemas, too. Fails if a chain of them is too long.
    fn measure(&self) -> Result<(Measured, u64), SchemaTooComplex> {
        let mut known = HashMap::new();
        let measured = self.measure_node(self.root, 0, &mut known)?;
        Ok((measured, known.len() as u64))
    }

    fn measure_node(
        &self,
        node: &'a Value,
        depth: usize,
        known: &mut HashMap<*const Value, Option<Measured>>,
    ) -> Result<Measured, SchemaTooComplex> {
        match known.get(&std::ptr::from_ref(node)) {
            Some(Some(measured)) if depth + measured.depth > MAX_DEPTH => return Err(SchemaTooComplex::Depth),
            Some(Some(measured)) => return Ok(*measured),
            // It is being measured: it contains itself.
            Some(None) => return Ok(Measured { is_recursive: true, ..Measured::default() }),
            None if depth > MAX_DEPTH => return Err(SchemaTooComplex::Depth),
            None => {}
        }
        known.insert(node, None);
        let mut all = Measured { nodes: 1, depth: 1, is_recursive: false };
        for child in self.list_children(node) {
            let child = self.measure_node(child, depth + 1, known)?;
            all.nodes = all.nodes.saturating_add(child.nodes);
            all.depth = all.depth.max(child.depth + 1);
            all.is_recursive |= child.is_recursive;
        }
        known.insert(node, Some(all));
        Ok(all)
    }

    /// All subschemas that this one leads to.
    fn list_children(&self, node: &'a Value) -> Vec<&'a Value> {
        let Value::Object(schema) = node else { return Vec::new() };
        let mut children = self.list_in_place(node, schema);
        let maps = ["properties", "patternProperties"];
        children.extend(maps.iter().filter_map(|name| schema.get(*name)?.as_object()).flat_map(Map::values));
        let of_items = OF_ITEMS.iter().chain(&["prefixItems"]).filter_map(|name| schema.get(*name));
        children.extend(of_items.flat_map(|items| items.as_array().map_or(std::slice::from_ref(items), Vec::as_slice)));
        children.extend(OF_OTHER_FIELDS.iter().chain(&["propertyNames"]).filter_map(|name| schema.get(*name)));
        children
    }
}

impl<'a> References<'a> {
    fn collect(root: &'a Value) -> References<'a> {
        let mut references = References::default();
        let mut left = vec![(root, root)];
        while let Some((node, base)) = left.pop() {
            match node {
                Value::Array(items) => left.extend(items.iter().map(|item| (item, base))),
                Value::Object(fields) => {
                    let base = references.add_names(node, fields).unwrap_or(base);
                    let texts = REFERENCES.iter().filter_map(|name| fields.get(*name)?.as_str());
                    references.found.extend(texts.map(|text| Reference { of: node, text, base }));
                    left.extend(fields.values().map(|field| (field, base)));
                }
                _ => {}
            }
        }
        references
    }

    /// Notes the names of a subschema. Returns it if it has an id.
    fn add_names(&mut self, node: &'a Value, fields: &'a Map<String, Value>) -> Option<&'a Value> {
        let text = |name: &&str| fields.get(*name).and_then(Value::as_str);
        let names = NAMES.iter().filter_map(text);
        names.for_each(|name| self.named.entry(last_part(name)).or_default().push(node));
        let id = IDS.iter().find_map(text).filter(|id| !id.starts_with('#'));
        id.map(|_| node)
    }

    /// What a reference leads to. A reference relative to an id is followed by its last part only, which finds at least what a
    /// validator finds.
    fn resolve(&self, reference: &Reference<'a>, root: &'a Value) -> Result<Vec<&'a Value>, SchemaTooComplex> {
        let (document, fragment) = reference.text.split_once('#').unwrap_or((reference.text, ""));
        let bases = match document {
            "" if std::ptr::eq(reference.base, root) => vec![root],
            // An older draft may not know the id.
            "" => vec![reference.base, root],
            name => self.find_named(name)?,
        };
        match fragment {
            "" => Ok(bases),
            pointer if pointer.starts_with('/') => {
                let decoded = decode_percent(pointer);
                let found =
                    bases.into_iter().filter_map(|base| base.pointer(pointer).or_else(|| base.pointer(&decoded)));
                let mut targets: Vec<&Value> = Vec::new();
                for target in found {
                    if !targets.iter().any(|known| std::ptr::eq(*known, target)) {
                        targets.push(target);
                    }
                }
                Ok(targets)
            }
            anchor => self.find_named(anchor),
        }
    }

    fn find_named(&self, name: &str) -> Result<Vec<&'a Value>, SchemaTooComplex> {
        let found = self.named.get(last_part(name)).map_or(&[][..], Vec::as_slice);
        if found.len() > MAX_NAMESAKES { Err(SchemaTooComplex::Work) } else { Ok(found.to_vec()) }
    }
}

/// A pointer without the escapes of URLs.
fn decode_percent(pointer: &str) -> String {
    let mut decoded = Vec::with_capacity(pointer.len());
    let mut left = pointer.as_bytes();
    while let [first, rest @ ..] = left {
        let escaped = pointer.get(pointer.len() - rest.len()..pointer.len() - rest.len() + 2);
        match escaped.filter(|_| *first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                left = &rest[2..];
            }
            None => {
                decoded.push(*first);
                left = rest;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// The part of an id or anchor after the last slash or number sign.
fn last_part(id: &str) -> &str {
    let trimmed = id.trim_end_matches(['#', '/']);
    trimmed.rsplit(['/', '#']).next().unwrap_or(trimmed)
}

/// Counts how often a validator applies subschemas to a value and its parts.
struct WorkCount<'a> {
    subschemas: &'a Subschemas<'a>,
    /// The count of each pair; `None` while it is counted.
    pairs: HashMap<(*const Value, *const Value), Option<u64>>,
}

impl<'a> WorkCount<'a> {
    fn count_pair(&mut self, node: &'a Value, value: &Value, depth: usize) -> Result<u64, SchemaTooComplex> {
        let Value::Object(schema) = node else { return Ok(1) };
        let pair = (std::ptr::from_ref(node), std::ptr::from_ref(value));
        match self.pairs.get(&pair) {
            Some(Some(count)) => return Ok(*count),
            // The schema applies itself to the same value, without end.
            Some(None) => return Err(SchemaTooComplex::Work),
            None if depth > MAX_DEPTH => return Err(SchemaTooComplex::Depth),
            None if self.pairs.len() >= MAX_PAIRS => return Err(SchemaTooComplex::Work),
            None => {}
        }
        self.pairs.insert(pair, None);
        let mut count: u64 = 1;
        for child in self.subschemas.list_in_place(node, schema) {
            count = count.saturating_add(self.count_pair(child, value, depth + 1)?);
        }
        let of_parts = match value {
            Value::Object(fields) => self.count_fields(schema, fields, depth)?,
            Value::Array(items) => self.count_items(schema, items, depth)?,
            _ => 0,
        };
        count = count.saturating_add(of_parts);
        self.pairs.insert(pair, Some(count));
        Ok(count)
    }

    fn count_fields(
        &mut self,
        schema: &'a Map<String, Value>,
        fields: &Map<String, Value>,
        depth: usize,
    ) -> Result<u64, SchemaTooComplex> {
        let properties = schema.get("properties").and_then(Value::as_object);
        let patterns = schema.get("patternProperties").and_then(Value::as_object);
        let mut count: u64 = 0;
        for (name, field) in fields {
            let named = properties.and_then(|properties| properties.get(name));
            let matching = patterns.into_iter().flatten().filter(|(pattern, _)| may_match(pattern, name));
            let mut applied: Vec<&Value> = named.into_iter().chain(matching.map(|(_, schema)| schema)).collect();
            if applied.is_empty() {
                applied.extend(OF_OTHER_FIELDS.iter().filter_map(|keyword| schema.get(*keyword)));
            }
            for child in applied {
                count = count.saturating_add(self.count_pair(child, field, depth + 1)?);
            }
        }
        Ok(count)
    }

    fn count_items(
        &mut self,
        schema: &'a Map<String, Value>,
        items: &[Value],
        depth: usize,
    ) -> Result<u64, SchemaTooComplex> {
        let mut count: u64 = 0;
        for (at, item) in items.iter().enumerate() {
            let by_place = ["prefixItems", "items"].iter().filter_map(|name| schema.get(*name)?.as_array()?.get(at));
            let for_all = OF_ITEMS.iter().filter_map(|name| schema.get(*name)).filter(|items| items.is_object());
            for child in by_place.chain(for_all) {
                count = count.saturating_add(self.count_pair(child, item, depth + 1)?);
            }
        }
        Ok(count)
    }
}

/// Whether a pattern can match a name. A pattern that begins with a literal text only matches names that do, too.
fn may_match(pattern: &str, name: &str) -> bool {
    let Some(anchored) = pattern.strip_prefix('^') else { return true };
    let end = anchored.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-')).unwrap_or(anchored.len());
    // The last character may be repeated or left out.
    let literal = anchored[..end].char_indices().next_back().map_or("", |(last, _)| &anchored[..last]);
    anchored.contains('|') || name.starts_with(literal)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A schema whose references branch `depth` times.
    fn branching(depth: usize) -> Value {
        let next = |at: usize| json!({"$ref": format!("#/$defs/d{}", at + 1)});
        let mut definitions: Map<String, Value> =
            (0..depth).map(|at| (format!("d{at}"), json!({"anyOf": [next(at), next(at)]}))).collect();
        definitions.insert(format!("d{depth}"), json!({"type": "number"}));
        json!({"$defs": definitions, "properties": {"a": {"$ref": "#/$defs/d0"}}})
    }

    #[test]
    fn references_that_branch_are_too_much_work() {
        assert_eq!(check_schema_work(&branching(10), &json!({"a": "x"})), Ok(()));
        assert_eq!(check_schema_work(&branching(26), &json!({"a": "x"})), Err(SchemaTooComplex::Work));
        assert_eq!(check_schema_work(&branching(400), &json!({"a": "x"})), Err(SchemaTooComplex::Work));
        assert_eq!(check_schema_work(&branching(26), &json!({"b": "x"})), Ok(()));
    }

    #[test]
    fn recursion_that_branches_with_the_value_is_too_much_work() {
        let twice = json!({"anyOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}]});
        let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!({"a": inner}));
        assert_eq!(check_schema_work(&twice, &nested(4)), Ok(()));
        assert_eq!(check_schema_work(&twice, &nested(40)), Err(SchemaTooComplex::Work));
    }

    #[test]
    fn a_tree_of_any_size_is_fine() {
        let tree = json!({
            "$id": "http://example.com/tree",
            "$defs": {"children": {"items": {"$ref": "#"}}},
            "properties": {"name": {"type": "string"}, "children": {"$ref": "#/$defs/children"}},
            "patternProperties": {"^x-": {"$ref": "#"}},
            "additionalProperties": {"$ref": "tree"},
        });
        let wide = json!({"children": vec![json!({"name": "a", "children": [{"other": {"name": "b"}}]}); 5_000]});
        assert_eq!(check_schema_work(&tree, &wide), Ok(()));
        let deep = (0..100).fold(json!({"name": "a"}), |inner, _| json!({"children": [inner], "name": "a"}));
        assert_eq!(check_schema_work(&tree, &deep), Ok(()));
    }

    #[test]
    fn what_never_ends_or_is_too_deep_is_found_before() {
        assert_eq!(check_schema_work(&json!({"$ref": "#"}), &json!(1)), Err(SchemaTooComplex::Work));
        let mut chain: Map<String, Value> =
            (0..5_000).map(|at| (format!("d{at}"), json!({"$ref": format!("#/$defs/d{}", at + 1)}))).collect();
        chain.insert("d5000".into(), json!({}));
        // The end of the chain is measured before its start.
        let all: Vec<Value> =
            (0..5_000).rev().step_by(500).map(|at| json!({"$ref": format!("#/$defs/d{at}")})).collect();
        let schema = json!({"allOf": all, "$defs": chain});
        assert_eq!(check_schema_depth(&schema), Err(SchemaTooComplex::Depth));
        assert_eq!(check_schema_work(&schema, &json!(1)), Err(SchemaTooComplex::Depth));
    }

    #[test]
    fn references_by_id_and_anchor_are_followed() {
        let namesakes = json!({"$ref": "#x", "$defs": vec![json!({"$anchor": "x"}); 9]});
        assert_eq!(check_schema_depth(&namesakes), Err(SchemaTooComplex::Work));
        let references =
            [("$anchor", "#twice"), ("$id", "twice"), ("$id", "http://example.com/twice"), ("title", "#/%24defs/%78")];
        for (key, reference) in references {
            let next = json!({"$ref": reference});
            let inner = json!({key: "twice", "anyOf": [{"properties": {"a": next}}, {"properties": {"a": next}}]});
            let schema = json!({"$defs": {"x": inner}, "$ref": reference});
            let nested = (0..40).fold(json!(1), |inner, _| json!({"a": inner}));
            assert_eq!(check_schema_work(&schema, &nested), Err(SchemaTooComplex::Work), "{key} {reference}");
        }
    }
}
