//! Bounds the memory that request bodies take: those of one caller, and those of all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flowloom_core::code::Code;

use crate::problem::{ApiResult, Problem};

/// Maximum size of the bodies of all open requests, in bytes.
const MAX_TOTAL_BYTES: usize = 512 << 20;

/// Maximum size of the bodies of the open requests of one caller, in bytes.
const MAX_CALLER_BYTES: usize = 128 << 20;

/// The bodies of the open requests of a server.
#[derive(Default)]
pub(crate) struct BodyBudget {
    held: Mutex<HeldBytes>,
}

#[derive(Default)]
struct HeldBytes {
    total: usize,
    by_caller: HashMap<Arc<str>, usize>,
}

impl BodyBudget {
    fn lock_held(&self) -> MutexGuard<'_, HeldBytes> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hold_bytes(&self, caller: &Arc<str>, count: usize) -> ApiResult<()> {
        let mut held = self.lock_held();
        let of_caller = held.by_caller.get(caller).copied().unwrap_or_default() + count;
        let (who, max) = match (of_caller > MAX_CALLER_BYTES, held.total + count > MAX_TOTAL_BYTES) {
            (true, _) => ("this caller", MAX_CALLER_BYTES),
            (false, true) => ("all callers", MAX_TOTAL_BYTES),
            (false, false) => {
                held.total += count;
                held.by_caller.insert(caller.clone(), of_caller);
                return Ok(());
            }
        };
        let message = format!("the open requests of {who} have bodies of more than {max} bytes together");
        Err(Problem::new(Code::TooManyCalls, message))
    }

    fn free_bytes(&self, caller: &Arc<str>, count: usize) {
        let mut held = self.lock_held();
        held.total -= count;
        if let Some(of_caller) = held.by_caller.get_mut(caller) {
            *of_caller -= count;
            if *of_caller == 0 {
                held.by_caller.remove(caller);
            }
        }
    }
}

/// The body of one open request. Its bytes count until it is dropped.
#[derive(Clone)]
pub(crate) struct OpenBody(Arc<BodyShare>);

struct BodyShare {
    budget: Arc<BodyBudget>,
    /// Who sends the body, and how many bytes have arrived.
    arrived: Mutex<Option<(Arc<str>, usize)>>,
}

impl OpenBody {
    /// A body of which nothing has arrived.
    pub(crate) fn new(budget: Arc<BodyBudget>) -> OpenBody {
        OpenBody(Arc::new(BodyShare { budget, arrived: Mutex::default() }))
    }

    /// Counts bytes that have arrived. Fails with `TooManyCalls` if that is too much together with other requests.
    pub(crate) fn add_bytes(&self, caller: &Arc<str>, count: usize) -> ApiResult<()> {
        self.0.budget.hold_bytes(caller, count)?;
        let mut arrived = self.0.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        arrived.get_or_insert_with(|| (caller.clone(), 0)).1 += count;
        Ok(())
    }
}

impl Drop for BodyShare {
    fn drop(&mut self) {
        let arrived = self.arrived.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some((caller, count)) = arrived.take() {
            self.budget.free_bytes(&caller, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bodies_of_one_caller_leave_room_for_others() {
        let budget = Arc::new(BodyBudget::default());
        let [ann, bob]: [Arc<str>; 2] = ["ann".into(), "bob".into()];
        let first = OpenBody::new(budget.clone());
        first.add_bytes(&ann, MAX_CALLER_BYTES).expect("within her share");
        let second = OpenBody::new(budget.clone());
        assert_eq!(second.add_bytes(&ann, 1).map_err(|problem| problem.code()), Err(Code::TooManyCalls));
        second.add_bytes(&bob, 1).expect("there is room");
        drop(first);
        OpenBody::new(budget.clone()).add_bytes(&ann, MAX_CALLER_BYTES).expect("her first request is answered");
        drop(second);
        let held = budget.lock_held();
        assert_eq!((held.total, held.by_caller.len()), (0, 0), "all requests are answered");
    }
}
