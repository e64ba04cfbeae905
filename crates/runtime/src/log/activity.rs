//! Activities: what keeps a run from being suspended. An effect in progress is one, and so is a pause between attempts. A
//! function or block that only waits, because one of its child effects waits for a person, is none while it waits.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use flowloom_core::path::Path;

use super::RunLog;

/// An effect in progress, and the effects around it.
pub(crate) struct ActivityScope {
    /// Number of child effects that wait for a person. Changed only under the lock of the log.
    waiting: AtomicUsize,
    parent: Option<Arc<ActivityScope>>,
}

impl RunLog {
    /// Counts an effect (or a pause between attempts) within `parent` as in progress until the guard is dropped.
    pub(crate) fn start_activity<'a>(&'a self, parent: Option<&'a Arc<ActivityScope>>) -> Activity<'a> {
        self.lock_state().active += 1;
        Activity { log: self, parent, scope: OnceLock::new() }
    }

    /// Registers a block or function that can have child effects until the guard is dropped.
    pub(crate) fn register_host(self: &Arc<RunLog>, path: &Path) -> HostGuard {
        self.lock_state().hosts.insert(path.clone());
        HostGuard { log: self.clone(), path: path.clone() }
    }

    /// Does not count the effects around a child effect until the guard is dropped, because it waits for a person.
    pub(crate) fn pause_activities(self: &Arc<RunLog>, scope: Option<&Arc<ActivityScope>>) -> ActivityPause {
        let mut state = self.lock_state();
        for scope in enclosing_scopes(scope) {
            if scope.waiting.fetch_add(1, Ordering::Relaxed) == 0 {
                state.active -= 1;
            }
        }
        drop(state);
        ActivityPause { log: self.clone(), scope: scope.cloned() }
    }
}

fn enclosing_scopes(scope: Option<&Arc<ActivityScope>>) -> impl Iterator<Item = &Arc<ActivityScope>> {
    std::iter::successors(scope, |scope| scope.parent.as_ref())
}

/// Marks an activity as in progress until it is dropped.
pub(crate) struct Activity<'a> {
    log: &'a RunLog,
    parent: Option<&'a Arc<ActivityScope>>,
    /// `None` without child effects, which most effects do not have.
    scope: OnceLock<Arc<ActivityScope>>,
}

impl Activity<'_> {
    /// The scope of the child effects.
    pub(crate) fn scope(&self) -> &Arc<ActivityScope> {
        let new = || Arc::new(ActivityScope { waiting: AtomicUsize::new(0), parent: self.parent.cloned() });
        self.scope.get_or_init(new)
    }
}

impl Drop for Activity<'_> {
    fn drop(&mut self) {
        let mut state = self.log.lock_state();
        if self.scope.get().is_none_or(|scope| scope.waiting.load(Ordering::Relaxed) == 0) {
            state.active -= 1;
        }
    }
}

/// Marks a block or function as one that can have child effects until it is dropped.
pub(crate) struct HostGuard {
    log: Arc<RunLog>,
    path: Path,
}

impl Drop for HostGuard {
    fn drop(&mut self) {
        self.log.lock_state().hosts.remove(&self.path);
    }
}

/// Marks the activities around a child effect as waiting until it is dropped.
pub(crate) struct ActivityPause {
    log: Arc<RunLog>,
    scope: Option<Arc<ActivityScope>>,
}

impl Drop for ActivityPause {
    fn drop(&mut self) {
        let mut state = self.log.lock_state();
        for scope in enclosing_scopes(self.scope.as_ref()) {
            if scope.waiting.fetch_sub(1, Ordering::Relaxed) == 1 {
                state.active += 1;
            }
        }
    }
}
