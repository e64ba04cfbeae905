//! Places for child runs: how many are driven at the same time, fairly among users.

use std::sync::Arc;

use flowloom_runtime::fair::{FairPermit, FairSemaphore, user_share};
use parking_lot::Mutex;

/// Child runs of each depth of nesting that this process drives at the same time.
const PLACES_PER_DEPTH: usize = 128;

/// The places of this process.
///
/// A run that waits for a child run keeps its own place. Each depth has places of its own, so a run waits only for a place of
/// runs below it, and those of the lowest depth wait for none.
#[derive(Default)]
pub(crate) struct ChildPlaces {
    depths: Mutex<Vec<FairSemaphore>>,
}

impl ChildPlaces {
    /// Waits for a place at a depth, which is at least 1.
    pub(super) async fn acquire_place(&self, depth: u32, user: &Arc<str>) -> FairPermit {
        let places = self.find_depth(depth as usize);
        places.acquire_permit(user).await
    }

    fn find_depth(&self, depth: usize) -> FairSemaphore {
        let mut depths = self.depths.lock();
        while depths.len() <= depth {
            depths.push(FairSemaphore::new("child_runs", PLACES_PER_DEPTH, user_share(PLACES_PER_DEPTH)));
        }
        depths[depth].clone()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn runs_that_wait_for_their_child_runs_take_no_place_from_them() {
        let places = ChildPlaces::default();
        let (ann, bob): (Arc<str>, Arc<str>) = ("ann".into(), "bob".into());
        let mut held = Vec::new();
        for _ in 0..user_share(PLACES_PER_DEPTH) {
            held.push(places.acquire_place(1, &ann).await);
        }
        assert!(places.acquire_place(1, &ann).now_or_never().is_none(), "she has her share");
        assert!(places.acquire_place(2, &ann).now_or_never().is_some(), "a depth below");
        assert!(places.acquire_place(1, &bob).now_or_never().is_some(), "another user");
    }
}
