//! Bounds the memory that request bodies take: those of one caller, and those of all.

use std::collections::HashMap;
use std::sync::Arc;

use flowloom_core::code::Code;
use parking_lot::{Mutex, MutexGuard};

use crate::problem::{ApiResult, Problem};

/// Bodies of callers whose key is known.
const KEYED_LIMITS: PoolLimits = PoolLimits { total_bytes: 512 << 20, caller_bytes: 128 << 20 };

/// Bodies of callers who have sent no key, which are webhooks whose signature is checked when the body is complete. They take
/// nothing from callers with a key.
const UNKEYED_LIMITS: PoolLimits = PoolLimits { total_bytes: 128 << 20, caller_bytes: 64 << 20 };

struct PoolLimits {
    /// Maximum size of the bodies of all open requests, in bytes.
    total_bytes: usize,
    /// Maximum size of the bodies of the open requests of one caller, in bytes.
    caller_bytes: usize,
}

/// The sender of a body.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BodySender {
    /// A user or a key, also by the secret of a webhook.
    Keyed(Arc<str>),
    /// An address that has sent no key.
    Unkeyed(Arc<str>),
}

impl BodySender {
    pub(crate) fn of_user(user: &str) -> BodySender {
        BodySender::Keyed(format!("user {user}").into())
    }

    fn pool_limits(&self) -> &'static PoolLimits {
        match self {
            BodySender::Keyed(_) => &KEYED_LIMITS,
            BodySender::Unkeyed(_) => &UNKEYED_LIMITS,
        }
    }
}

/// The bodies of the open requests of a server.
#[derive(Default)]
pub(crate) struct BodyBudget {
    held: Mutex<HeldBytes>,
}

#[derive(Default)]
struct HeldBytes {
    keyed_total: usize,
    unkeyed_total: usize,
    by_sender: HashMap<BodySender, usize>,
}

impl HeldBytes {
    fn total_mut(&mut self, sender: &BodySender) -> &mut usize {
        match sender {
            BodySender::Keyed(_) => &mut self.keyed_total,
            BodySender::Unkeyed(_) => &mut self.unkeyed_total,
        }
    }
}

impl BodyBudget {
    fn lock_held(&self) -> MutexGuard<'_, HeldBytes> {
        self.held.lock()
    }

    fn hold_bytes(&self, sender: &BodySender, count: usize) -> ApiResult<()> {
        let mut held = self.lock_held();
        let limits = sender.pool_limits();
        let of_sender = held.by_sender.get(sender).copied().unwrap_or_default() + count;
        let total = *held.total_mut(sender) + count;
        let (who, max) = match (of_sender > limits.caller_bytes, total > limits.total_bytes) {
            (true, _) => ("this caller", limits.caller_bytes),
            (false, true) => ("all callers", limits.total_bytes),
            (false, false) => {
                *held.total_mut(sender) = total;
                held.by_sender.insert(sender.clone(), of_sender);
                return Ok(());
            }
        };
        let message = format!("the open requests of {who} have bodies of more than {max} bytes together");
        Err(Problem::new(Code::TooManyCalls, message))
    }

    fn free_bytes(&self, sender: &BodySender, count: usize) {
        let mut held = self.lock_held();
        *held.total_mut(sender) -= count;
        if let Some(of_sender) = held.by_sender.get_mut(sender) {
            *of_sender -= count;
            if *of_sender == 0 {
                held.by_sender.remove(sender);
            }
        }
    }
}

/// The body of one open request. Its bytes count until it is dropped.
#[derive(Clone)]
pub(crate) struct OpenBody(Arc<BodyShare>);

struct BodyShare {
    budget: Arc<BodyBudget>,
    /// The sender of the body, and how many bytes have arrived.
    arrived: Mutex<Option<(BodySender, usize)>>,
}

impl OpenBody {
    /// A body of which nothing has arrived.
    pub(crate) fn new(budget: Arc<BodyBudget>) -> OpenBody {
        OpenBody(Arc::new(BodyShare { budget, arrived: Mutex::default() }))
    }

    /// Counts bytes that have arrived. Fails with `TooManyCalls` if that is too much together with other requests.
    pub(crate) fn add_bytes(&self, sender: &BodySender, count: usize) -> ApiResult<()> {
        self.0.budget.hold_bytes(sender, count)?;
        let mut arrived = self.0.arrived.lock();
        arrived.get_or_insert_with(|| (sender.clone(), 0)).1 += count;
        Ok(())
    }
}

impl Drop for BodyShare {
    fn drop(&mut self) {
        if let Some((sender, count)) = self.arrived.get_mut().take() {
            self.budget.free_bytes(&sender, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bodies_of_one_caller_leave_room_for_others() {
        let budget = Arc::new(BodyBudget::default());
        let [ann, bob] = ["ann", "bob"].map(|name| BodySender::Keyed(name.into()));
        let caller_bytes = KEYED_LIMITS.caller_bytes;
        let first = OpenBody::new(budget.clone());
        first.add_bytes(&ann, caller_bytes).expect("within her share");
        let second = OpenBody::new(budget.clone());
        assert_eq!(second.add_bytes(&ann, 1).map_err(|problem| problem.code()), Err(Code::TooManyCalls));
        second.add_bytes(&bob, 1).expect("there is room");
        drop(first);
        OpenBody::new(budget.clone()).add_bytes(&ann, caller_bytes).expect("her first request is answered");
        drop(second);
        let held = budget.lock_held();
        assert_eq!((held.keyed_total, held.by_sender.len()), (0, 0), "all requests are answered");
    }

    #[test]
    fn callers_without_a_key_leave_all_room_to_those_with_one() {
        let budget = Arc::new(BodyBudget::default());
        let fill = |address: u8| {
            let body = OpenBody::new(budget.clone());
            let sender = BodySender::Unkeyed(address.to_string().into());
            body.add_bytes(&sender, UNKEYED_LIMITS.caller_bytes).map(|()| body)
        };
        let bodies: Vec<_> = (0..9).map_while(|address| fill(address).ok()).collect();
        assert_eq!(bodies.len(), UNKEYED_LIMITS.total_bytes / UNKEYED_LIMITS.caller_bytes);
        let ann = BodySender::Keyed("ann".into());
        OpenBody::new(budget.clone()).add_bytes(&ann, KEYED_LIMITS.caller_bytes).expect("her share is free");
    }
}
