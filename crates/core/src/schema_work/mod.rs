//! How much work it is to hold a value to a JSON Schema. A validator applies a subschema again for every way that leads to
//! it, so a small schema whose references branch can take years, and a long chain of references can exhaust the stack.

mod patterns;
mod references;

use std::collections::HashMap;

use serde_json::{Map, Value};

pub use patterns::PatternLimits;
use patterns::{MAX_BACKTRACKING_SEARCHES, MAX_PATTERNS, SchemaPatterns, count_searches};
use references::SchemaReferences;

/// Longest chain of subschemas that a validator may follow.
const MAX_DEPTH: usize = 1_000;

/// Number of applications of subschemas that are harmless, however often they repeat each other.
const MAX_APPLICATIONS: u64 = 300_000;

/// How often a subschema may be applied to the same part of the value beyond that, on average.
const MAX_REPETITIONS: u64 = 64;

/// Number of regular expressions that take no time worth mentioning to compile.
const LIGHT_PATTERNS: usize = 16;

/// Number of pairs of a subschema and a part of the value that are looked at.
const MAX_PAIRS: usize = 1_000_000;

/// Keywords whose schemas apply to the same value.
const IN_PLACE_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
const IN_PLACE: [&str; 4] = ["not", "if", "then", "else"];
const IN_PLACE_MAPS: [&str; 2] = ["dependentSchemas", "dependencies"];

/// Keywords whose schemas apply to the elements of a list.
const OF_ITEMS: [&str; 4] = ["items", "contains", "additionalItems", "unevaluatedItems"];

/// Keywords whose schemas apply to the fields of an object that no other keyword names.
const OF_OTHER_FIELDS: [&str; 2] = ["additionalProperties", "unevaluatedProperties"];

/// A text in the place of the name of a field.
static ANY_NAME: Value = Value::String(String::new());

/// Why a value is not held to a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaTooComplex {
    /// A chain of subschemas is too long.
    #[error("the schema is nested too deeply: more than {MAX_DEPTH} subschemas lead to each other")]
    Depth,
    /// There are too many ways through the schema.
    #[error("the schema is too complex for this value: its references branch again and again")]
    Work,
    /// Too many subschemas apply to too many parts of the value.
    #[error("the value is too large for this schema, which applies itself to its parts")]
    Size,
    /// It has too many regular expressions.
    #[error("the schema has more than {MAX_PATTERNS} regular expressions")]
    Patterns,
    /// Too many texts are held to regular expressions that backtrack.
    #[error(
        "the value has too much text for this schema: more than {MAX_BACKTRACKING_SEARCHES} texts or names are held to \
         regular expressions with look-around or back-references, or to `format: regex`"
    )]
    Backtracking,
    /// A reference leads nowhere, or its address has a form that is not followed.
    #[error("the schema has a reference that leads to nothing in it")]
    Reference,
}

/// A measured schema, from which is known before a validation whether that takes too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemaWork {
    /// Whether no value takes much more work than its size.
    is_bounded: bool,
    patterns: SchemaPatterns,
}

/// Measures a schema before it is compiled. Fails if validating any value could exhaust the stack.
pub fn measure_schema(schema: &Value) -> Result<SchemaWork, SchemaTooComplex> {
    let (measured, distinct) = Subschemas::new(schema).measure_root()?;
    let patterns = SchemaPatterns::find_patterns(schema)?;
    let is_flat = !measured.is_recursive && measured.nodes <= MAX_REPETITIONS * distinct;
    Ok(SchemaWork { is_bounded: is_flat && !patterns.has_backtracking, patterns })
}

impl SchemaWork {
    /// The limits for compiling the regular expressions of the schema.
    pub fn pattern_limits(self) -> PatternLimits {
        PatternLimits::share_budget(self.patterns.count, MAX_BACKTRACKING_SEARCHES)
    }

    /// Whether compiling the schema, or holding a value to it, may take so long that other work must not wait for it.
    pub fn is_heavy(self) -> bool {
        !self.is_bounded || self.patterns.count > LIGHT_PATTERNS
    }

    /// Fails if validating `value` against the measured `schema` would take too long or exhaust the stack. Returns what the
    /// regular expressions may take if the value is not held to those with which the schema was compiled.
    pub fn check_value(self, schema: &Value, value: &Value) -> Result<Option<PatternLimits>, SchemaTooComplex> {
        if self.is_bounded {
            return Ok(None);
        }
        let subschemas = Subschemas::new(schema);
        let mut count = WorkCount { subschemas: &subschemas, pairs: HashMap::new(), leaves: 0, marks: HashMap::new() };
        let work = count.count_pair(schema, value, 0)?;
        let repetitions = work.applications / (count.pairs.len() as u64 + count.leaves).max(1);
        match work {
            _ if work.applications > MAX_APPLICATIONS && repetitions > MAX_REPETITIONS => Err(SchemaTooComplex::Work),
            _ if work.searches > MAX_BACKTRACKING_SEARCHES => Err(SchemaTooComplex::Backtracking),
            _ if work.searches == 0 => Ok(None),
            _ => Ok(Some(PatternLimits::share_budget(self.patterns.count, work.searches))),
        }
    }
}

/// How much work something is.
#[derive(Clone, Copy, Default)]
struct Work {
    /// Number of applications of subschemas.
    applications: u64,
    /// Number of searches for regular expressions that may backtrack.
    searches: u64,
}

impl Work {
    /// One application of a subschema.
    const ONE: Work = Work { applications: 1, searches: 0 };

    fn saturating_add(self, other: Work) -> Work {
        Work {
            applications: self.applications.saturating_add(other.applications),
            searches: self.searches.saturating_add(other.searches),
        }
    }

    fn saturating_mul(self, count: u64) -> Work {
        Work { applications: self.applications.saturating_mul(count), searches: self.searches.saturating_mul(count) }
    }

    fn max_of_each(self, other: Work) -> Work {
        Work { applications: self.applications.max(other.applications), searches: self.searches.max(other.searches) }
    }
}

/// A schema, with what its references lead to.
struct Subschemas<'a> {
    root: &'a Value,
    /// The targets of the references of a subschema, by its address.
    referenced: HashMap<*const Value, Referenced<'a>>,
}

/// The targets of the references of a subschema.
#[derive(Default)]
struct Referenced<'a> {
    targets: Vec<&'a Value>,
    /// Candidates of which one applies: which one depends on the way that leads to the subschema.
    candidates: Vec<&'a Value>,
    /// Whether a reference leads to something unknown.
    is_unknown: bool,
}

/// The size of a schema if every reference is replaced by what it leads to.
#[derive(Clone, Copy, Default)]
struct Measured {
    nodes: u64,
    depth: usize,
    is_recursive: bool,
}

impl<'a> Subschemas<'a> {
    fn new(root: &'a Value) -> Subschemas<'a> {
        let references = SchemaReferences::collect_references(root);
        let mut referenced: HashMap<*const Value, Referenced<'a>> = HashMap::new();
        for reference in &references.found {
            let of_node = referenced.entry(std::ptr::from_ref(reference.of)).or_default();
            match references.find_targets(reference, root) {
                Some(targets) if reference.keyword == "$ref" => of_node.targets.extend(targets),
                Some(candidates) => of_node.candidates.extend(candidates),
                None => of_node.is_unknown = true,
            }
        }
        Subschemas { root, referenced }
    }

    fn find_referenced(&self, node: &Value) -> Option<&Referenced<'a>> {
        self.referenced.get(&std::ptr::from_ref(node))
    }

    /// The subschemas that apply to the same value as this one, without those of which one applies.
    fn list_in_place(&self, node: &'a Value, schema: &'a Map<String, Value>) -> Vec<&'a Value> {
        let lists = IN_PLACE_LISTS.iter().filter_map(|name| schema.get(*name)?.as_array()).flatten();
        let single = IN_PLACE.iter().filter_map(|name| schema.get(*name));
        let maps = IN_PLACE_MAPS.iter().filter_map(|name| schema.get(*name)?.as_object()).flat_map(Map::values);
        let targets = self.find_referenced(node).into_iter().flat_map(|referenced| referenced.targets.iter().copied());
        lists.chain(single).chain(maps).chain(targets).collect()
    }

    /// Whether a value may match another subschema of `node` instead of this one.
    fn is_alternative(&self, node: &Value, child: &Value) -> bool {
        let is_target =
            self.find_referenced(node).is_some_and(|all| all.targets.iter().any(|one| std::ptr::eq(*one, child)));
        let all_of = node.get("allOf").and_then(Value::as_array);
        let is_required = all_of.is_some_and(|all| all.as_ptr_range().contains(&std::ptr::from_ref(child)));
        !is_target && !is_required
    }

    fn list_candidates(&self, node: &Value) -> &[&'a Value] {
        self.find_referenced(node).map_or(&[], |referenced| referenced.candidates.as_slice())
    }

    /// Measures the schema as a whole. Returns the number of its distinct subschemas, too. Fails if a chain of them is too long.
    fn measure_root(&self) -> Result<(Measured, u64), SchemaTooComplex> {
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
        if self.find_referenced(node).is_some_and(|referenced| referenced.is_unknown) {
            return Err(SchemaTooComplex::Reference);
        }
        known.insert(node, None);
        let mut all = Measured { nodes: 1, depth: 1, is_recursive: false };
        if let Value::Object(schema) = node {
            let in_place =
                self.list_in_place(node, schema).into_iter().chain(self.list_candidates(node).iter().copied());
            for (child, times) in in_place
                .map(|child| (child, count_passes(schema)))
                .chain(list_parts(schema).into_iter().map(|child| (child, 1)))
            {
                let child = self.measure_node(child, depth + 1, known)?;
                all.nodes = all.nodes.saturating_add(child.nodes.saturating_mul(times));
                all.depth = all.depth.max(child.depth + 1);
                all.is_recursive |= child.is_recursive;
            }
        }
        known.insert(node, Some(all));
        Ok(all)
    }
}

/// How often a validator goes through the subschemas for the same value: it looks again for what they have evaluated.
fn count_passes(schema: &Map<String, Value>) -> u64 {
    let looks_again = schema.contains_key("unevaluatedProperties") || schema.contains_key("unevaluatedItems");
    if looks_again { 2 } else { 1 }
}

/// The subschemas that apply to parts of the value.
fn list_parts(schema: &Map<String, Value>) -> Vec<&Value> {
    let maps = ["properties", "patternProperties"];
    let mut parts: Vec<&Value> =
        maps.iter().filter_map(|name| schema.get(*name)?.as_object()).flat_map(Map::values).collect();
    let of_items = OF_ITEMS.iter().chain(&["prefixItems"]).filter_map(|name| schema.get(*name));
    parts.extend(of_items.flat_map(|items| items.as_array().map_or(std::slice::from_ref(items), Vec::as_slice)));
    parts.extend(OF_OTHER_FIELDS.iter().chain(&["propertyNames"]).filter_map(|name| schema.get(*name)));
    parts
}

/// Counts how often a validator applies subschemas to a value and its parts.
struct WorkCount<'a> {
    subschemas: &'a Subschemas<'a>,
    /// The count of each pair; `None` while it is counted.
    pairs: HashMap<(*const Value, *const Value), Option<Work>>,
    /// Number of applications of subschemas that lead to no others, each counted once.
    leaves: u64,
    /// The count of finding out what a subschema has evaluated.
    marks: HashMap<(*const Value, *const Value), Option<Work>>,
}

impl<'a> WorkCount<'a> {
    fn count_pair(&mut self, node: &'a Value, value: &Value, depth: usize) -> Result<Work, SchemaTooComplex> {
        let Value::Object(schema) = node else { return Ok(Work::ONE) };
        let pair = (std::ptr::from_ref(node), std::ptr::from_ref(value));
        match self.pairs.get(&pair) {
            Some(Some(count)) => return Ok(*count),
            // The schema applies itself to the same value, without end.
            Some(None) => return Err(SchemaTooComplex::Work),
            None => {}
        }
        let own = Work { searches: count_searches(schema, value), ..Work::ONE };
        let in_place = self.subschemas.list_in_place(node, schema);
        let candidates = self.subschemas.list_candidates(node);
        if in_place.is_empty() && candidates.is_empty() && !has_parts(schema, value) {
            self.leaves += 1;
            return Ok(own);
        }
        if depth > MAX_DEPTH {
            return Err(SchemaTooComplex::Depth);
        }
        if self.pairs.len() >= MAX_PAIRS {
            return Err(SchemaTooComplex::Size);
        }
        self.pairs.insert(pair, None);
        let mut count = own;
        for child in in_place {
            count = count.saturating_add(self.count_pair(child, value, depth + 1)?);
        }
        let mut most = Work::default();
        for child in candidates {
            most = most.max_of_each(self.count_pair(child, value, depth + 1)?);
        }
        count = count.saturating_add(most);
        if count_passes(schema) > 1 {
            count = count.saturating_add(self.count_marks(node, value, depth + 1)?);
        }
        let of_parts = match value {
            Value::Object(fields) => self.count_fields(schema, fields, depth)?,
            Value::Array(items) => self.count_items(schema, items, depth)?,
            _ => Work::default(),
        };
        count = count.saturating_add(of_parts);
        self.pairs.insert(pair, Some(count));
        Ok(count)
    }

    /// Counts how often a validator applies subschemas to find out what a subschema has evaluated: it follows references and
    /// `allOf`, and holds the value again to the alternatives.
    fn count_marks(&mut self, node: &'a Value, value: &Value, depth: usize) -> Result<Work, SchemaTooComplex> {
        let Value::Object(schema) = node else { return Ok(Work::ONE) };
        let pair = (std::ptr::from_ref(node), std::ptr::from_ref(value));
        match self.marks.get(&pair) {
            Some(Some(count)) => return Ok(*count),
            Some(None) => return Err(SchemaTooComplex::Work),
            None if depth > MAX_DEPTH => return Err(SchemaTooComplex::Depth),
            None => {}
        }
        self.marks.insert(pair, None);
        let mut count = Work::ONE;
        for child in self.subschemas.list_in_place(node, schema) {
            let again = if self.subschemas.is_alternative(node, child) {
                self.count_pair(child, value, depth + 1)?
            } else {
                Work::default()
            };
            count = count.saturating_add(again).saturating_add(self.count_marks(child, value, depth + 1)?);
        }
        let mut most = Work::default();
        for child in self.subschemas.list_candidates(node) {
            most = most.max_of_each(self.count_marks(child, value, depth + 1)?);
        }
        count = count.saturating_add(most);
        self.marks.insert(pair, Some(count));
        Ok(count)
    }

    fn count_fields(
        &mut self,
        schema: &'a Map<String, Value>,
        fields: &Map<String, Value>,
        depth: usize,
    ) -> Result<Work, SchemaTooComplex> {
        let properties = schema.get("properties").and_then(Value::as_object);
        let patterns = schema.get("patternProperties").and_then(Value::as_object);
        let mut count = Work::default();
        if let Some(names) = schema.get("propertyNames").filter(|_| !fields.is_empty()) {
            let of_name = self.count_pair(names, &ANY_NAME, depth + 1)?;
            count = of_name.saturating_mul(fields.len() as u64);
        }
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
    ) -> Result<Work, SchemaTooComplex> {
        let mut count = Work::default();
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

/// Whether a schema constrains the parts of a value.
fn has_parts(schema: &Map<String, Value>, value: &Value) -> bool {
    match value {
        Value::Object(fields) => !fields.is_empty() && !list_parts(schema).is_empty(),
        Value::Array(items) => !items.is_empty() && !list_parts(schema).is_empty(),
        _ => false,
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
mod tests;
