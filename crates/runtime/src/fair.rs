//! A semaphore whose permits are shared fairly among users.
//!
//! A free permit goes to the waiting user who holds the fewest permits; among equals, to the one who was served least
//! recently. A user who queues a thousand requests therefore delays another user by at most one permit's time.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::metrics;

/// A fixed number of permits, shared fairly among users.
#[derive(Clone)]
pub struct FairSemaphore {
    shared: Arc<PermitPool>,
    /// The name of the queue in the metrics.
    name: &'static str,
}

/// The number of permits that one user may hold: a quarter is left for others.
pub fn user_share(permits: usize) -> usize {
    permits - permits / 4
}

/// A permit. It returns to the semaphore when it is dropped.
pub struct FairPermit {
    shared: Arc<PermitPool>,
    user: Arc<str>,
}

struct PermitPool {
    state: Mutex<State>,
    /// Maximum number of permits that one user may hold.
    user_limit: usize,
}

struct State {
    free: usize,
    users: HashMap<Arc<str>, User>,
    /// The users who wait, in the order in which they are served.
    queue: BTreeSet<QueuePosition>,
    /// Counts the grants.
    grants: u64,
}

/// A user who holds permits or waits for some.
#[derive(Default)]
struct User {
    held: usize,
    /// The number of the last grant to this user.
    served_at: u64,
    waiting: VecDeque<oneshot::Sender<FairPermit>>,
}

/// The place of a user in the queue: the fewest permits first, then the longest time since the last one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct QueuePosition {
    held: usize,
    served_at: u64,
    user: Arc<str>,
}

/// A permit on its way to the request that waits for it.
type Grant = (oneshot::Sender<FairPermit>, FairPermit);

impl FairSemaphore {
    /// A semaphore with `permits` permits, of which one user may hold at most `user_limit`. Both are at least 1. The metrics
    /// count how long requests wait in the queue `name`.
    pub fn new(name: &'static str, permits: usize, user_limit: usize) -> FairSemaphore {
        let state = State { free: permits.max(1), users: HashMap::new(), queue: BTreeSet::new(), grants: 0 };
        let shared = Arc::new(PermitPool { state: Mutex::new(state), user_limit: user_limit.max(1) });
        FairSemaphore { shared, name }
    }

    /// Waits for a permit on behalf of a user. A request that is dropped while it waits leaves the queue.
    pub async fn acquire_permit(&self, user: &Arc<str>) -> FairPermit {
        match self.queue_request(user, usize::MAX) {
            Some(request) => self.wait_for_grant(request).await,
            // No queue is that long.
            None => std::future::pending().await,
        }
    }

    /// The same, but `None` if `limit` requests of the user wait already.
    pub async fn acquire_permit_within(&self, user: &Arc<str>, limit: usize) -> Option<FairPermit> {
        let request = self.queue_request(user, limit)?;
        Some(self.wait_for_grant(request).await)
    }

    /// Puts a request into the queue, unless `limit` requests of the user wait already.
    fn queue_request(&self, user: &Arc<str>, limit: usize) -> Option<oneshot::Receiver<FairPermit>> {
        let (sender, receiver) = oneshot::channel();
        let grants = {
            let mut state = self.shared.lock_state();
            if !state.change_user(user, |user| user.queue_sender(sender, limit)) {
                return None;
            }
            self.shared.grant_free(&mut state)
        };
        send_grants(grants);
        Some(receiver)
    }

    async fn wait_for_grant(&self, request: oneshot::Receiver<FairPermit>) -> FairPermit {
        let since = Instant::now();
        match request.await {
            Ok(permit) => {
                metrics::record_wait(self.name, u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX));
                permit
            }
            // Senders stay in the queue, which this semaphore owns, until they are used.
            Err(_) => std::future::pending().await,
        }
    }
}

impl PermitPool {
    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Takes free permits for those who are next.
    fn grant_free(self: &Arc<PermitPool>, state: &mut State) -> Vec<Grant> {
        let mut grants = Vec::new();
        while state.free > 0 {
            let Some(next) = state.queue.first().filter(|next| next.held < self.user_limit) else { break };
            let user = next.user.clone();
            state.grants += 1;
            let number = state.grants;
            let sender = state.change_user(&user, |user| {
                let sender = user.next_request();
                if sender.is_some() {
                    (user.held, user.served_at) = (user.held + 1, number);
                }
                sender
            });
            if let Some(sender) = sender {
                state.free -= 1;
                grants.push((sender, FairPermit { shared: self.clone(), user }));
            }
        }
        grants
    }
}

impl State {
    /// Changes a user, and keeps the queue and the map of users in order.
    fn change_user<T>(&mut self, name: &Arc<str>, change: impl FnOnce(&mut User) -> T) -> T {
        let user = self.users.entry(name.clone()).or_default();
        self.queue.remove(&user.queue_place(name));
        let result = change(user);
        if !user.waiting.is_empty() {
            self.queue.insert(user.queue_place(name));
        } else if user.held == 0 {
            self.users.remove(name);
        }
        result
    }
}

impl User {
    fn queue_place(&self, name: &Arc<str>) -> QueuePosition {
        QueuePosition { held: self.held, served_at: self.served_at, user: name.clone() }
    }

    /// Queues a request, and returns whether it did: not if `limit` requests wait. Dropped requests do not count.
    fn queue_sender(&mut self, sender: oneshot::Sender<FairPermit>, limit: usize) -> bool {
        if self.waiting.len() >= limit {
            self.waiting.retain(|waiting| !waiting.is_closed());
        }
        let has_room = self.waiting.len() < limit;
        if has_room {
            self.waiting.push_back(sender);
        }
        has_room
    }

    /// The first request that still waits.
    fn next_request(&mut self) -> Option<oneshot::Sender<FairPermit>> {
        while let Some(sender) = self.waiting.pop_front() {
            if !sender.is_closed() {
                return Some(sender);
            }
        }
        None
    }
}

/// Hands permits over, without the lock: a request that has just been dropped returns its permit.
fn send_grants(grants: Vec<Grant>) {
    for (sender, permit) in grants {
        let _ = sender.send(permit);
    }
}

impl Drop for FairPermit {
    fn drop(&mut self) {
        let grants = {
            let mut state = self.shared.lock_state();
            state.free += 1;
            state.change_user(&self.user, |user| user.held -= 1);
            self.shared.grant_free(&mut state)
        };
        send_grants(grants);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use futures_util::future::BoxFuture;

    use super::*;

    #[test]
    fn one_user_leaves_a_quarter_of_the_permits_to_others() {
        assert_eq!([1, 4, 1000].map(user_share), [1, 3, 750]);
    }

    /// Requests of a user that wait.
    fn queue_requests(semaphore: &FairSemaphore, user: &str, count: usize) -> Vec<BoxFuture<'static, FairPermit>> {
        let request = |_| {
            let (semaphore, user) = (semaphore.clone(), Arc::from(user));
            let mut request = async move { semaphore.acquire_permit(&user).await }.boxed();
            assert!((&mut request).now_or_never().is_none(), "it waits");
            request
        };
        (0..count).map(request).collect()
    }

    fn hold_permits(semaphore: &FairSemaphore, user: &str, count: usize) -> Vec<FairPermit> {
        let user = Arc::from(user);
        (0..count).map(|_| semaphore.acquire_permit(&user).now_or_never().expect("a free permit")).collect()
    }

    #[test]
    fn another_user_is_served_before_a_long_queue() {
        let semaphore = FairSemaphore::new("test", 2, 2);
        let mut held = hold_permits(&semaphore, "ann", 2);
        let mut anns = queue_requests(&semaphore, "ann", 1000);
        let mut bobs = queue_requests(&semaphore, "bob", 1);
        held.pop();
        assert!((&mut bobs[0]).now_or_never().is_some());
        assert!((&mut anns[0]).now_or_never().is_some(), "bob's permit is free again");
    }

    #[test]
    fn permits_are_shared_equally() {
        let semaphore = FairSemaphore::new("test", 6, 6);
        let mut held = hold_permits(&semaphore, "ann", 6);
        let users = ["ann", "bob", "cid"];
        let mut queues: Vec<_> = users.iter().map(|user| queue_requests(&semaphore, user, 10)).collect();
        let mut count = [0; 3];
        let mut granted = Vec::new();
        while let Some(permit) = held.pop() {
            drop(permit);
            for (user, queue) in queues.iter_mut().enumerate() {
                queue.retain_mut(|request| match request.now_or_never() {
                    Some(permit) => {
                        count[user] += 1;
                        granted.push(permit);
                        false
                    }
                    None => true,
                });
            }
        }
        assert_eq!(count, [2, 2, 2]);
    }

    #[test]
    fn a_user_leaves_permits_for_others() {
        let semaphore = FairSemaphore::new("test", 4, 3);
        let held = hold_permits(&semaphore, "ann", 3);
        let _waiting = queue_requests(&semaphore, "ann", 1);
        drop(hold_permits(&semaphore, "bob", 1));
        drop(held);
    }

    #[test]
    fn a_full_queue_accepts_no_request_until_one_leaves_it() {
        let semaphore = FairSemaphore::new("test", 1, 1);
        let ann = Arc::from("ann");
        let queue = |limit: usize| {
            let (semaphore, ann) = (semaphore.clone(), Arc::clone(&ann));
            let mut request = async move { semaphore.acquire_permit_within(&ann, limit).await }.boxed();
            let answer = (&mut request).now_or_never();
            (answer.map(|permit| permit.is_some()), request)
        };
        let held = hold_permits(&semaphore, "ann", 1);
        let (first, second, third) = (queue(2), queue(2), queue(2));
        assert_eq!([first.0, second.0, third.0], [None, None, Some(false)]);
        drop(first.1);
        assert_eq!((queue(1).0, queue(2).0), (Some(false), None), "one waits, and then two");
        drop(held);
    }

    #[test]
    fn a_request_that_is_dropped_keeps_no_permit() {
        let semaphore = FairSemaphore::new("test", 1, 1);
        let held = hold_permits(&semaphore, "ann", 1);
        drop(queue_requests(&semaphore, "ann", 100));
        let granted = queue_requests(&semaphore, "bob", 1);
        drop(held);
        // The permit is on its way to bob, who does not take it.
        drop(granted);
        drop(hold_permits(&semaphore, "ann", 1));
        assert!(semaphore.shared.lock_state().users.is_empty());
    }
}
