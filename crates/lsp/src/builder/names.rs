//! Names for new parts that no other part has.

use std::collections::BTreeSet;

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
        if !self.0.contains(name) {
            return name.to_owned();
        }
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let stem = stem.strip_suffix(separator).filter(|stem| !stem.is_empty()).unwrap_or(stem);
        let stem = if stem.is_empty() { name } else { stem };
        let mut number = 2_usize;
        loop {
            let candidate = format!("{stem}{separator}{number}");
            if !self.0.contains(&candidate) {
                return candidate;
            }
            number += 1;
        }
    }

    /// The first name of a row, such as `n1`.
    pub(super) fn find_next(&self, stem: &str) -> String {
        (1_usize..).map(|number| format!("{stem}{number}")).find(|name| !self.0.contains(name)).unwrap_or_default()
    }
}
