//! The variables of a scope.

use std::sync::Arc;

use crate::chat::{Message, Thread};
use crate::expr::Lookup;
use crate::hash::{Hash, Hasher};
use crate::path::Path;
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
    /// Conversations by name.
    pub threads: Vec<(Arc<str>, Thread)>,
    /// What the scripts of the step under way gave, by slot.
    pub scripts: Vec<(Arc<str>, Option<Value>)>,
    /// What the run has written for a person to read, in order.
    pub transcript: Arc<Vec<Written>>,
    /// The loop whose iteration these steps are, if they look at its `self`.
    pub following: Option<Arc<Following>>,
}

/// An object `{index, self, last}` about a loop's iterations: this one's number, all of them, and the one before.
///
/// `self` has the finished iterations while `until` is evaluated, and this one too, as far as it has come, in the body.
#[derive(Clone, Debug, PartialEq)]
pub struct Helper {
    /// The names it goes by.
    pub names: Vec<Arc<str>>,
    /// Whether `self` is read at all; an object without it is made in no time, however many iterations there are.
    pub history: bool,
}

/// A loop's helper, as it was when the iteration under way began.
#[derive(Clone, Debug)]
pub struct Following {
    /// Its names.
    pub helper: Helper,
    /// What it was.
    pub outside: Value,
    /// The variables of an iteration's output.
    pub gives: Vec<Arc<str>>,
}

/// A piece of a run's text.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// The steps it belongs to: the path of the sequence around them.
    pub part: Path,
    /// The text.
    pub text: String,
}

impl Env {
    /// The start of a plan or of steps with variables of their own.
    pub fn of(vars: Vars) -> Env {
        Env { vars, ..Env::default() }
    }

    /// The conversation called `name`; empty if nothing was said.
    pub fn thread(&self, name: &str) -> Thread {
        let found = self.threads.iter().find(|(key, _)| &**key == name);
        found.map(|(_, thread)| thread.clone()).unwrap_or_default()
    }

    /// Adds to the conversation called `name`.
    pub fn say(&mut self, name: &Arc<str>, message: Message) {
        match self.threads.iter_mut().find(|(key, _)| key == name) {
            Some((_, thread)) => thread.push(message),
            None => self.threads.push((name.clone(), Thread::from_iter([message]))),
        }
    }

    /// Writes a piece of text.
    pub fn write(&mut self, part: Path, text: String) {
        Arc::make_mut(&mut self.transcript).push(Written { part, text });
    }
}

impl Lookup for Env {
    fn lookup(&self, name: &str) -> Option<&Value> {
        let local = self.locals.iter().rev().find(|(local, _)| &**local == name).map(|(_, value)| value);
        local.or_else(|| self.vars.get(name))
    }

    fn script(&self, slot: &str) -> Option<&Option<Value>> {
        self.scripts.iter().rev().find(|(key, _)| &**key == slot).map(|(_, value)| value)
    }
}
