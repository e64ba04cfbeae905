//! This process, as others that share the database see it.

use std::sync::Arc;
use std::time::Duration;

use crate::lease_terms::LeaseTerms;

/// Name and lease duration of this process, as other processes see it.
#[derive(Clone, Debug)]
pub(crate) struct WorkerIdentity {
    pub(crate) name: String,
    pub(crate) lease: Duration,
    pub(crate) terms: Arc<LeaseTerms>,
}

impl WorkerIdentity {
    pub(crate) fn new(name: String, lease: Duration) -> WorkerIdentity {
        WorkerIdentity { name, lease, terms: Arc::default() }
    }

    pub(crate) fn lease_ms(&self) -> i64 {
        i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX)
    }
}
