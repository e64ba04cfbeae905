//! Locks by user and key. A lock exists while a task holds it or waits for it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::OwnedMutexGuard;

type LockKey = (String, String);

/// The locks that a task holds or waits for.
#[derive(Default)]
pub(crate) struct KeyedLocks(Mutex<HashMap<LockKey, Arc<tokio::sync::Mutex<()>>>>);

/// A held lock. Dropping it releases the lock.
pub(crate) struct HeldLock {
    locks: Arc<KeyedLocks>,
    key: LockKey,
    guard: Option<OwnedMutexGuard<()>>,
}

impl KeyedLocks {
    /// Acquires the lock of a user's key. Waits while another task holds it.
    pub(crate) async fn acquire_lock(self: &Arc<KeyedLocks>, user: &str, key: &str) -> HeldLock {
        let key = (user.to_owned(), key.to_owned());
        // Dropping it also cleans up after a cancelled wait.
        let mut held = HeldLock { locks: self.clone(), key: key.clone(), guard: None };
        let lock = self.lock_map().entry(key).or_default().clone();
        held.guard = Some(lock.lock_owned().await);
        held
    }

    fn lock_map(&self) -> MutexGuard<'_, HashMap<LockKey, Arc<tokio::sync::Mutex<()>>>> {
        self.0.lock()
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        let mut locks = self.locks.lock_map();
        self.guard = None;
        // Only the map refers to it, so no task holds it or waits for it.
        if locks.get(&self.key).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            locks.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[tokio::test]
    async fn one_holds_a_lock_and_the_others_wait() {
        let locks = Arc::new(KeyedLocks::default());
        let first = locks.acquire_lock("ann", "k").await;
        let other = locks.acquire_lock("bob", "k").await;
        let mut second = Box::pin(locks.acquire_lock("ann", "k"));
        assert!((&mut second).now_or_never().is_none(), "it is held");
        drop((first, other));
        drop(second.await);
        assert!(locks.lock_map().is_empty(), "locks that nobody needs are gone");
    }

    #[tokio::test]
    async fn a_wait_that_is_given_up_leaves_nothing() {
        let locks = Arc::new(KeyedLocks::default());
        let first = locks.acquire_lock("ann", "k").await;
        assert!(locks.acquire_lock("ann", "k").now_or_never().is_none());
        drop(first);
        assert!(locks.lock_map().is_empty());
    }
}
