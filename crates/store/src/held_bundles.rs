//! Bundles of runs that are about to start. Each run stores its bundle in the transaction of its first event, whether or
//! not another run does: the other one may fail, or be stored later.

use std::collections::HashMap;
use std::sync::Arc;

use flowloom_core::hash::Hash;
use parking_lot::{Mutex, MutexGuard};

/// The bundles, by hash. Those of runs in memory stay here.
#[derive(Default)]
pub(crate) struct HeldBundles(Mutex<HashMap<Hash, HeldBundle>>);

struct HeldBundle {
    content: Arc<str>,
    /// Number of runs that have not stored it yet.
    starts: usize,
}

impl HeldBundles {
    fn lock_bundles(&self) -> MutexGuard<'_, HashMap<Hash, HeldBundle>> {
        self.0.lock()
    }

    /// Holds a bundle for one more run.
    pub(crate) fn hold_bundle(&self, hash: Hash, content: &Arc<str>) {
        self.lock_bundles().entry(hash).or_insert_with(|| HeldBundle { content: content.clone(), starts: 0 }).starts +=
            1;
    }

    /// The content of a bundle that is held.
    pub(crate) fn find_bundle(&self, hash: Hash) -> Option<Arc<str>> {
        self.lock_bundles().get(&hash).map(|held| held.content.clone())
    }

    /// The content of a bundle for the transaction of a run; `None` if the run has taken it before.
    pub(crate) fn take_bundle(&self, hash: Hash) -> Option<Arc<str>> {
        let mut bundles = self.lock_bundles();
        let held = bundles.get_mut(&hash)?;
        held.starts -= 1;
        match held.starts {
            0 => bundles.remove(&hash).map(|held| held.content),
            _ => Some(held.content.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_takes_its_bundle() {
        let (bundles, hash) = (HeldBundles::default(), Hash::of_bytes(b"text"));
        let text: Arc<str> = "text".into();
        bundles.hold_bundle(hash, &text);
        bundles.hold_bundle(hash, &text);
        assert_eq!(bundles.find_bundle(hash), Some(text.clone()));
        assert_eq!([(); 3].map(|()| bundles.take_bundle(hash)), [Some(text.clone()), Some(text), None]);
        assert_eq!(bundles.find_bundle(hash), None);
    }
}
