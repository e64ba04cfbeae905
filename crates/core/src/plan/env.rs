//! The variables of a scope.

use std::sync::Arc;

use crate::chat::{Message, Role, Thread};
use crate::expr::{Expr, Lookup, Ref};
use crate::hash::{Hash, Hasher};
use crate::path::Path;
use crate::plan::MissingReferences;
use crate::plan::missing::{is_written, is_written_undefined};
use crate::value::{Map, Value};

/// Variables in the order of their first write, with a digest of all writes.
///
/// Cloning is cheap (a snapshot for a parallel branch). The digest costs one hash per write, however many variables
/// there are; passing all variables to every step is therefore not linear in their size.
#[derive(Clone, Debug)]
pub struct Vars {
    map: Arc<Map>,
    digest: Hash,
}

impl Default for Vars {
    fn default() -> Vars {
        Vars { map: Arc::default(), digest: Hash::EMPTY }
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
        hasher.add_hash(&self.digest).add_number(2).add_value(value).add_number(names.len() as u64);
        let map = Arc::make_mut(&mut self.map);
        for name in names {
            hasher.add_text(&name);
            map.insert(name, value.clone());
        }
        self.digest = hasher.finish();
    }

    /// Appends an item to a list variable; creates the list if the variable is missing or not a list.
    pub fn append(&mut self, name: Arc<str>, item: Value) {
        self.digest = Hasher::new().add_hash(&self.digest).add_number(1).add_text(&name).add_value(&item).finish();
        let slot = Arc::make_mut(&mut self.map).entry(name).or_insert_with(|| Value::list(Vec::new()));
        match slot {
            Value::List(items) => Arc::make_mut(items).push(item),
            other => *other = Value::list(vec![item]),
        }
    }

    /// Removes a variable.
    pub fn remove(&mut self, name: &str) {
        if self.map.contains_key(name) {
            self.digest = Hasher::new().add_hash(&self.digest).add_number(0).add_text(name).finish();
            Arc::make_mut(&mut self.map).shift_remove(name);
        }
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.map.get(name)
    }

    /// All variables.
    pub fn as_map(&self) -> &Map {
        &self.map
    }

    /// All variables, shared.
    pub fn shared_map(&self) -> Arc<Map> {
        self.map.clone()
    }

    /// The digest of all writes so far. Equal histories have equal digests.
    pub fn digest(&self) -> Hash {
        self.digest
    }
}

/// The names that a step sees: variables, and local names such as the counter of a loop.
#[derive(Clone, Debug, Default)]
pub struct Env {
    /// The variables.
    pub vars: Vars,
    /// Local names; the last one with a given name wins.
    pub locals: Vec<(Arc<str>, Value)>,
    /// Conversations by name.
    pub threads: Vec<(Arc<str>, Thread)>,
    /// Results of the current step's scripts, by slot.
    pub scripts: Vec<(Arc<str>, Option<Value>)>,
    /// Texts that the run has written for people, in order.
    pub transcript: Arc<Vec<TranscriptPiece>>,
    /// The loop whose current iteration these steps are, if they read its `self`.
    pub helper_state: Option<Arc<HelperState>>,
    /// Where references without a value are reported, if anywhere.
    pub missing: Option<MissingReferences>,
}

/// An object `{index, self, last}` about the iterations of a loop: the number of this one, all of them, and the
/// previous one.
///
/// While `until` is evaluated, `self` holds the finished iterations; in the body it also holds the progress of the
/// current one.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopHelper {
    /// The names of the helper object.
    pub names: Vec<Arc<str>>,
    /// Whether `self` is read at all. Without it, the cost of building the object does not depend on the number of
    /// iterations.
    pub history: bool,
}

/// The helper of a loop, as it was at the start of the current iteration.
#[derive(Clone, Debug)]
pub struct HelperState {
    /// The names of the helper.
    pub helper: LoopHelper,
    /// The value of the helper.
    pub outside: Value,
    /// The variables that make up an iteration's output.
    pub gives: Vec<Arc<str>>,
}

/// A piece of the transcript of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct TranscriptPiece {
    /// The path of the enclosing sequence.
    pub part: Path,
    /// The speaker.
    pub role: Role,
    /// The text; it may be empty.
    pub text: String,
}

impl Env {
    /// The initial environment of a plan or of steps with variables of their own.
    pub fn from_vars(vars: Vars) -> Env {
        Env { vars, ..Env::default() }
    }

    /// The conversation called `name`; empty if there is none.
    pub fn find_thread(&self, name: &str) -> Thread {
        let found = self.threads.iter().find(|(key, _)| &**key == name);
        found.map(|(_, thread)| thread.clone()).unwrap_or_default()
    }

    /// Appends a message to the conversation called `name`.
    pub fn append_message(&mut self, name: &Arc<str>, message: Message) {
        match self.threads.iter_mut().find(|(key, _)| key == name) {
            Some((_, thread)) => thread.push(message),
            None => self.threads.push((name.clone(), Thread::from_iter([message]))),
        }
    }

    /// Appends a piece of text to the transcript.
    pub fn write_text(&mut self, piece: TranscriptPiece) {
        Arc::make_mut(&mut self.transcript).push(piece);
    }
}

impl Lookup for Env {
    fn lookup_name(&self, name: &str) -> Option<&Value> {
        let local = self.locals.iter().rev().find(|(local, _)| &**local == name).map(|(_, value)| value);
        local.or_else(|| self.vars.get(name))
    }

    fn lookup_script(&self, slot: &str) -> Option<&Option<Value>> {
        self.scripts.iter().rev().find(|(key, _)| &**key == slot).map(|(_, value)| value)
    }

    fn report_missing(&self, reference: &Ref) {
        if let Some(missing) = &self.missing {
            missing.add_message(|| self.describe_missing(reference));
        }
    }

    fn report_undefined(&self, expr: &Expr) {
        if let Some(missing) = self.missing.as_ref().filter(|_| is_written(expr) && !is_written_undefined(expr)) {
            missing.add_message(|| self.describe_undefined(expr));
        }
    }
}
