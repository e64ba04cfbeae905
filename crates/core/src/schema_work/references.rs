//! Resolves the references of a schema.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// Number of subschemas with the same name among which a reference may have to choose.
const MAX_NAMESAKES: usize = 8;

/// Keywords with references.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Keywords with names that references can have, and those of them that pointers are relative to.
const NAMES: [&str; 4] = ["$anchor", "$dynamicAnchor", "$id", "id"];
const IDS: [&str; 2] = ["$id", "id"];

/// The addresses of schemas for schemas, which every validator knows.
const METASCHEMAS: [&str; 2] = ["http://json-schema.org/", "https://json-schema.org/"];

/// The names of subschemas, and the references to them.
#[derive(Default)]
pub(super) struct SchemaReferences<'a> {
    /// Subschemas by the last parts of their anchors and ids.
    named: HashMap<&'a str, Vec<&'a Value>>,
    pub(super) found: Vec<SchemaReference<'a>>,
}

/// A reference of a subschema.
pub(super) struct SchemaReference<'a> {
    pub(super) of: &'a Value,
    pub(super) keyword: &'static str,
    text: &'a str,
    /// The innermost subschema with an id around it, which pointers are relative to.
    base: &'a Value,
}

impl<'a> SchemaReferences<'a> {
    pub(super) fn collect_references(root: &'a Value) -> SchemaReferences<'a> {
        let mut references = SchemaReferences::default();
        let mut left = vec![(root, root)];
        while let Some((node, base)) = left.pop() {
            match node {
                Value::Array(items) => left.extend(items.iter().map(|item| (item, base))),
                Value::Object(fields) => {
                    let base = references.add_names(node, fields).unwrap_or(base);
                    let found =
                        REFERENCES.iter().filter_map(|keyword| Some((*keyword, fields.get(*keyword)?.as_str()?)));
                    references.found.extend(found.map(|(keyword, text)| SchemaReference {
                        of: node,
                        keyword,
                        text,
                        base,
                    }));
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

    /// The possible targets of a reference; `None` if unknown. A reference relative to an id is followed by its last part
    /// only, which finds at least what a validator finds.
    pub(super) fn find_targets(&self, reference: &SchemaReference<'a>, root: &'a Value) -> Option<Vec<&'a Value>> {
        if METASCHEMAS.iter().any(|address| reference.text.starts_with(address)) {
            return Some(Vec::new());
        }
        let (document, fragment) = reference.text.split_once('#').unwrap_or((reference.text, ""));
        let bases = match document {
            "" if std::ptr::eq(reference.base, root) => vec![root],
            // An older draft may not know the id.
            "" => vec![reference.base, root],
            name => self.find_named(name)?,
        };
        let targets = match fragment {
            "" => bases,
            pointer if pointer.starts_with('/') => {
                let decoded = decode_percent(pointer);
                let pointers = if decoded == pointer { vec![pointer] } else { vec![pointer, &decoded] };
                bases.iter().flat_map(|base| pointers.iter().filter_map(|pointer| base.pointer(pointer))).collect()
            }
            anchor => self.find_named(anchor)?,
        };
        let mut distinct: Vec<&Value> = Vec::new();
        for target in targets {
            if !distinct.iter().any(|known| std::ptr::eq(*known, target)) {
                distinct.push(target);
            }
        }
        (!distinct.is_empty()).then_some(distinct)
    }

    /// The subschemas with a name; `None` if there are too many to follow.
    fn find_named(&self, name: &str) -> Option<Vec<&'a Value>> {
        let found = self.named.get(last_part(name)).map_or(&[][..], Vec::as_slice);
        (found.len() <= MAX_NAMESAKES).then(|| found.to_vec())
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
