//! The requests of a recorded run. The record holds only their hashes; following it builds them again.

use std::collections::HashMap;
use std::sync::Arc;

use flowloom_core::effect::Request;
use flowloom_core::hash::Hash;
use flowloom_core::path::Path;
use flowloom_core::value::Map;
use parking_lot::{Mutex, MutexGuard};

/// A request as a step sent it.
#[derive(Clone, Debug)]
pub struct SentRequest {
    /// The step.
    pub path: Path,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The request. Secrets are names in it.
    pub request: Request,
}

/// Requests in the order in which they were sent, and the hashes of the scripts that were evaluated.
#[derive(Clone, Debug, Default)]
pub struct CollectedRequests(Arc<Mutex<Collected>>);

#[derive(Debug, Default)]
struct Collected {
    sent: Vec<SentRequest>,
    scripts: HashMap<Path, Hash>,
    scopes: Vec<OpenScope>,
}

/// The names that a step which has not ended lets the steps in it see.
#[derive(Clone, Debug)]
pub struct OpenScope {
    /// The step, or the iteration; the root for the run.
    pub path: Path,
    /// The kind of the scope.
    pub kind: ScopeKind,
    /// The names with their values.
    pub values: Arc<Map>,
}

/// The meaning of the names of an [`OpenScope`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeKind {
    /// All variables that the steps see: those of the run, of another definition, or of a block with variables of its own.
    Variables,
    /// Names that an iteration adds, such as its number.
    Iteration,
}

impl CollectedRequests {
    pub(crate) fn add(&self, path: &Path, attempt: u32, request: &Request) {
        let sent = SentRequest { path: path.clone(), attempt, request: request.clone() };
        self.lock_collected().sent.push(sent);
    }

    /// The requests since the last call.
    pub fn take(&self) -> Vec<SentRequest> {
        std::mem::take(&mut self.lock_collected().sent)
    }

    /// The requests since the last call of [`CollectedRequests::take`].
    pub fn list_sent(&self) -> Vec<SentRequest> {
        self.lock_collected().sent.clone()
    }

    /// Adds the hash of the script at `path`.
    pub(crate) fn add_script(&self, path: &Path, hash: Hash) {
        self.lock_collected().scripts.insert(path.clone(), hash);
    }

    /// Adds what a step that has not ended lets the steps in it see.
    pub(crate) fn add_scope(&self, scope: OpenScope) {
        self.lock_collected().scopes.push(scope);
    }

    /// The scopes of the unfinished steps around `path` that it can read, from the innermost one.
    pub(crate) fn list_scopes(&self, path: &Path) -> Vec<OpenScope> {
        let collected = self.lock_collected();
        let is_around = |scope: &&OpenScope| match scope.kind {
            ScopeKind::Variables => scope.path != *path && path.is_within(&scope.path),
            // A step can be the whole iteration.
            ScopeKind::Iteration => path.is_within(&scope.path),
        };
        let mut around: Vec<OpenScope> = collected.scopes.iter().filter(is_around).cloned().collect();
        around.sort_by_key(|scope| std::cmp::Reverse(scope.path.as_str().len()));
        around
    }

    /// The hashes of the scripts since the last call.
    pub fn take_scripts(&self) -> HashMap<Path, Hash> {
        std::mem::take(&mut self.lock_collected().scripts)
    }

    fn lock_collected(&self) -> MutexGuard<'_, Collected> {
        self.0.lock()
    }
}
