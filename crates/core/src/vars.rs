//! The variables of a scope.

use std::sync::Arc;

use crate::hash::{Hash, Hasher};
use crate::template::Lookup;
use crate::value::{Map, Value};

/// Variables in the order of their first write, with a digest of every write.
///
/// Cloning is cheap (a snapshot for a parallel branch), and the digest costs one hash per write however many variables
/// there are; so a step that passes on "all variables" is not linear in what was said before.
#[derive(Clone, Debug)]
pub struct Vars {
    map: Arc<Map>,
    digest: Hash,
}

impl Default for Vars {
    fn default() -> Vars {
        Vars { map: Arc::default(), digest: Hash::of(b"") }
    }
}

impl Vars {
    /// Sets a variable.
    pub fn set(&mut self, name: Arc<str>, value: Value) {
        self.set_all(vec![name], &value);
    }

    /// Sets several variables to one value, which is hashed once.
    pub fn set_all(&mut self, names: Vec<Arc<str>>, value: &Value) {
        if names.is_empty() {
            return;
        }
        let mut hasher = Hasher::new();
        hasher.hash(&self.digest).number(2).value(value).number(names.len() as u64);
        let map = Arc::make_mut(&mut self.map);
        for name in names {
            hasher.text(&name);
            map.insert(name, value.clone());
        }
        self.digest = hasher.finish();
    }

    /// Adds an item to a list variable, which is made if it is missing or no list.
    pub fn append(&mut self, name: Arc<str>, item: Value) {
        self.digest = Hasher::new().hash(&self.digest).number(1).text(&name).value(&item).finish();
        let slot = Arc::make_mut(&mut self.map).entry(name).or_insert_with(|| Value::list(Vec::new()));
        match slot {
            Value::List(items) => Arc::make_mut(items).push(item),
            other => *other = Value::list(vec![item]),
        }
    }

    /// Removes a variable.
    pub fn remove(&mut self, name: &str) {
        if self.map.contains_key(name) {
            self.digest = Hasher::new().hash(&self.digest).number(0).text(name).finish();
            Arc::make_mut(&mut self.map).shift_remove(name);
        }
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.map.get(name)
    }

    /// All of them.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// All of them, shared.
    pub fn shared(&self) -> Arc<Map> {
        self.map.clone()
    }

    /// The digest of all writes so far: equal histories, equal digests.
    pub fn digest(&self) -> Hash {
        self.digest
    }
}

/// What a step sees: the variables, and names that exist only where it stands (a loop's counter).
#[derive(Clone, Debug, Default)]
pub struct Env {
    /// The variables.
    pub vars: Vars,
    /// Names of this place only; the last one of a name counts.
    pub locals: Vec<(Arc<str>, Value)>,
}

impl Lookup for Env {
    fn lookup(&self, name: &str) -> Option<&Value> {
        let local = self.locals.iter().rev().find(|(local, _)| &**local == name).map(|(_, value)| value);
        local.or_else(|| self.vars.get(name))
    }
}
