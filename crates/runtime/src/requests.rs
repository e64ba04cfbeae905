//! The requests of a recorded run. The record holds only their hashes; following it builds them again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flowloom_core::effect::Request;
use flowloom_core::hash::Hash;
use flowloom_core::path::Path;
use flowloom_core::value::Map;

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
    scopes: Vec<(Path, Arc<Map>)>,
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

    /// Adds the variables of steps with variables of their own that have not ended.
    pub(crate) fn add_scope(&self, path: &Path, variables: Arc<Map>) {
        self.lock_collected().scopes.push((path.clone(), variables));
    }

    /// The variables of the innermost steps with variables of their own that have not ended and in which the step at `path`
    /// is; `None` if it is in none.
    pub(crate) fn find_scope(&self, path: &Path) -> Option<Arc<Map>> {
        let collected = self.lock_collected();
        let around = collected.scopes.iter().filter(|(scope, _)| scope != path && path.is_within(scope));
        around.max_by_key(|(scope, _)| scope.as_str().len()).map(|(_, variables)| variables.clone())
    }

    /// The hashes of the scripts since the last call.
    pub fn take_scripts(&self) -> HashMap<Path, Hash> {
        std::mem::take(&mut self.lock_collected().scripts)
    }

    fn lock_collected(&self) -> MutexGuard<'_, Collected> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
