//! The requests of a recorded run. The record holds only their hashes; following it builds them again.

use std::sync::{Arc, Mutex, PoisonError};

use flowloom_core::effect::Request;
use flowloom_core::path::Path;

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

/// Requests in the order in which they were sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct CollectedRequests(Arc<Mutex<Vec<SentRequest>>>);

impl CollectedRequests {
    pub(crate) fn add(&self, path: &Path, attempt: u32, request: &Request) {
        let sent = SentRequest { path: path.clone(), attempt, request: request.clone() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(sent);
    }

    pub(crate) fn take(&self) -> Vec<SentRequest> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
