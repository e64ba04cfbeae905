//! The identity of a step within a run, for example `/translate[3]/poem`.
//!
//! A path names the step, the iteration (`[i]`) and the visit (`#n`), never the attempt: a retry has the same path.
//! This module is the only place that builds paths.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The path of a step in a run. The root is `/`.
///
/// # Examples
///
/// ```
/// use flowloom_core::path::{Key, Path};
///
/// let translate = Key::from_name("translate").expect("letters");
/// let path = Path::root().child_path(&translate).iteration_path(3);
/// assert_eq!(path.as_str(), "/translate[3]");
/// assert!(path.is_within(&Path::root().child_path(&translate)));
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Path(Arc<str>);

/// A path is equal to its text and has the same hash, so that collections of paths can be searched by text.
impl Borrow<str> for Path {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Path {
    /// The path of the whole run.
    pub fn root() -> Path {
        Path("/".into())
    }

    /// The path of a child step.
    pub fn child_path(&self, key: &Key) -> Path {
        self.append_parts(&["/", &key.0])
    }

    /// The path of iteration `index` of a loop, from 0.
    pub fn iteration_path(&self, index: u64) -> Path {
        self.append_parts(&["[", &index.to_string(), "]"])
    }

    /// The path of the `visit`-th visit to a node of a machine, from 1.
    pub fn visit_path(&self, visit: u64) -> Path {
        self.append_parts(&["#", &visit.to_string()])
    }

    /// The path that a step of a child run has in the run of this step, whose attempt started the child run.
    pub fn child_run_path(&self, attempt: u32, inner: &Path) -> Path {
        let key = format!("/{}", Key::numbered_key("run", 1).0);
        let inner = if &*inner.0 == "/" { "" } else { &*inner.0 };
        match attempt {
            0 | 1 => self.append_parts(&[&key, inner]),
            attempt => self.visit_path(u64::from(attempt)).append_parts(&[&key, inner]),
        }
    }

    fn append_parts(&self, parts: &[&str]) -> Path {
        let own = if &*self.0 == "/" { "" } else { &*self.0 };
        let texts = || std::iter::once(own).chain(parts.iter().copied());
        // Collected on the stack: a shared text is copied into its allocation anyway.
        let mut small = [0; 128];
        let mut end = 0;
        for text in texts() {
            let Some(room) = small.get_mut(end..end + text.len()) else {
                return Path(texts().collect::<String>().into());
            };
            room.copy_from_slice(text.as_bytes());
            end += text.len();
        }
        Path(str::from_utf8(&small[..end]).map_or_else(|_| texts().collect::<String>().into(), Into::into))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `self` is `other` or below it.
    pub fn is_within(&self, other: &Path) -> bool {
        &*other.0 == "/"
            || self.0.strip_prefix(&*other.0).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '[', '#']))
    }

    /// The path of the enclosing step.
    pub fn parent(&self) -> Path {
        match self.0.rfind('/') {
            None | Some(0) => Path::root(),
            Some(end) => Path(self.0[..end].into()),
        }
    }

    /// The paths of all enclosing steps as text, from the root of the run down.
    pub fn ancestors(&self) -> impl Iterator<Item = &str> {
        let ends = self.0.char_indices().skip(1).filter(|(_, c)| matches!(c, '/' | '[' | '#')).map(|(end, _)| end);
        let root = (self.0.len() > 1).then_some(1);
        root.into_iter().chain(ends).map(|end| &self.0[..end])
    }

    /// The path in the plan, which has no iterations and no visits.
    pub fn drop_repetitions(&self) -> String {
        drop_repetitions(&self.0)
    }

    /// Parses a path; `None` unless it starts with `/`.
    pub fn parse(text: &str) -> Option<Path> {
        text.starts_with('/').then(|| Path(text.into()))
    }
}

/// The text of a path, such as one of [`Path::ancestors`], without iterations and visits.
pub fn drop_repetitions(path: &str) -> String {
    let plain = |part: &'_ str| part[..part.find(['[', '#']).unwrap_or(part.len())].to_owned();
    path.split('/').map(plain).collect::<Vec<_>>().join("/")
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A segment of a path: a declared name, or `<kind>~<n>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

impl Key {
    /// A declared name as a key; `None` unless it consists of 1 to 64 ASCII letters, digits, `_`, `-` and `.`.
    pub fn from_name(name: &str) -> Option<Key> {
        let clean = !name.is_empty()
            && name.len() <= 64
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'));
        clean.then(|| Key(name.into()))
    }

    /// The key of the `n`-th step of its kind among its siblings, from 1.
    pub fn numbered_key(kind: &str, n: usize) -> Key {
        Key(format!("{kind}~{n}").into())
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Assigns the keys of one list of siblings: the declared name if it is valid and not taken, otherwise `<kind>~<n>`.
#[derive(Default)]
pub struct Siblings {
    taken: std::collections::HashSet<Key>,
    counts: std::collections::HashMap<String, usize>,
}

impl Siblings {
    /// The key of the next sibling.
    pub fn next_key(&mut self, name: Option<&str>, kind: &str) -> Key {
        let count = self.counts.entry(kind.to_owned()).or_default();
        *count += 1;
        let numbered = Key::numbered_key(kind, *count);
        // A declared name cannot contain `~`, so numbered keys never collide with names.
        let key = name.and_then(Key::from_name).filter(|key| !self.taken.contains(key)).unwrap_or(numbered);
        self.taken.insert(key.clone());
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_dropped() {
        let drop = |text: &str| Path::parse(text).expect("a path").drop_repetitions();
        assert_eq!(drop("/refine[2]/page"), "/refine/page");
        assert_eq!(drop("/Router#2/turn[1]/tool[0]"), "/Router/turn/tool");
    }

    #[test]
    fn paths_nest() {
        let key = Key::from_name("translate").expect("clean");
        let path =
            Path::root().child_path(&key).iteration_path(3).child_path(&Key::numbered_key("http", 2)).visit_path(1);
        assert_eq!(path.as_str(), "/translate[3]/http~2#1");
        assert!(path.is_within(&Path::root().child_path(&key)));
        assert_eq!(path.ancestors().collect::<Vec<_>>(), ["/", "/translate", "/translate[3]", "/translate[3]/http~2"]);
        assert_eq!(Path::root().ancestors().count(), 0);
        assert!(!path.is_within(&Path::root().child_path(&Key::numbered_key("trans", 1))));
        let inner = Path::root().child_path(&key);
        assert_eq!(inner.child_run_path(1, &inner).as_str(), "/translate/run~1/translate");
        assert_eq!(inner.child_run_path(2, &inner).as_str(), "/translate#2/run~1/translate");
    }

    #[test]
    fn siblings_are_unique() {
        let mut siblings = Siblings::default();
        let keys: Vec<_> =
            [Some("a"), Some("a"), None, Some("b c")].map(|n| siblings.next_key(n, "call").as_str().to_owned()).into();
        assert_eq!(keys, ["a", "call~2", "call~3", "call~4"]);
    }
}
