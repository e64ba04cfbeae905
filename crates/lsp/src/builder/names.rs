//! Names for new parts that no other part has.

use std::collections::{BTreeMap, BTreeSet};

use flowloom_core::json::Node;

use crate::analysis::index::Index;
use crate::analysis::names::NameKind;

/// The names of a document that are taken.
#[derive(Debug, Default)]
pub(super) struct TakenNames(BTreeSet<String>);

impl TakenNames {
    /// The names of a kind in a document.
    pub(super) fn of_kind(index: &Index, kind: NameKind) -> TakenNames {
        TakenNames(index.names.iter().filter(|name| name.kind == kind).map(|name| name.text.clone()).collect())
    }

    /// The texts at a key of the items of a list.
    pub(super) fn of_items(list: Option<&Node>, key: &str) -> TakenNames {
        let items = list.and_then(Node::items).unwrap_or_default();
        TakenNames(items.iter().filter_map(|item| item.get(key)?.as_str().map(str::to_owned)).collect())
    }

    /// The name itself, or with the first number that makes it a new one.
    pub(super) fn find_free(&self, name: &str, separator: &str) -> String {
        match self.0.contains(name) {
            true => self.number_stem(find_stem(name, separator), separator, 2).0,
            false => name.to_owned(),
        }
    }

    /// New names for those of the given names that are taken. No two of the given names end up equal.
    pub(super) fn replace_taken(mut self, names: BTreeSet<String>, separator: &str) -> BTreeMap<String, String> {
        let taken: Vec<String> = names.iter().filter(|name| self.0.contains(*name)).cloned().collect();
        self.0.extend(names);
        // Numbers that were tried for a stem are not tried again.
        let mut next_numbers: BTreeMap<String, usize> = BTreeMap::new();
        let mut replace = |name: String| {
            let stem = find_stem(&name, separator);
            let next = next_numbers.entry(stem.to_owned()).or_insert(2);
            let (free, number) = self.number_stem(stem, separator, *next);
            *next = number + 1;
            (name, free)
        };
        taken.into_iter().map(&mut replace).collect()
    }

    /// The first name of a stem and a number that is free, with its number.
    fn number_stem(&self, stem: &str, separator: &str, from: usize) -> (String, usize) {
        let mut number = from;
        loop {
            let candidate = format!("{stem}{separator}{number}");
            if !self.0.contains(&candidate) {
                return (candidate, number);
            }
            number += 1;
        }
    }

    /// The first name of a row, such as `n1`.
    pub(super) fn find_next(&self, stem: &str) -> String {
        (1_usize..).map(|number| format!("{stem}{number}")).find(|name| !self.0.contains(name)).unwrap_or_default()
    }
}

/// A name without the number at its end.
fn find_stem<'n>(name: &'n str, separator: &str) -> &'n str {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let stem = stem.strip_suffix(separator).filter(|stem| !stem.is_empty()).unwrap_or(stem);
    if stem.is_empty() { name } else { stem }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect_names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn taken_names_are_replaced_by_different_ones() {
        let taken = || TakenNames(collect_names(&["a", "a1", "a2", "b", "7"]));
        let replaced = taken().replace_taken(collect_names(&["a", "a1", "a2", "a_3", "b", "c", "7"]), "_");
        let pairs: Vec<String> = replaced.iter().map(|(from, to)| format!("{from}={to}")).collect();
        assert_eq!(pairs, ["7=7_2", "a=a_2", "a1=a_4", "a2=a_5", "b=b_2"]);
        assert_eq!(taken().find_free("a1", "_"), "a_2");
        assert_eq!(taken().find_free("c", "_"), "c");
    }
}
