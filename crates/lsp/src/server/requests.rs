//! The requests that are being answered. Any number of them can be: the protocol library polls no answer while a service is
//! not ready for the next request, so a service that waits for answers would never be ready again. How many are computed at
//! the same time is bounded where they are computed.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::task::{Context, Poll};

use async_lsp::{AnyEvent, AnyNotification, AnyRequest, ErrorCode, LspService, RequestId, ResponseError};
use futures_util::future::{AbortHandle, Abortable, BoxFuture};
use lsp_types::CancelParams;
use lsp_types::notification::{Cancel, Notification as _};
use tower_service::Service;

/// Number of requests from which on the ended ones are forgotten.
const MIN_FORGOTTEN: usize = 64;

/// A service whose requests can be cancelled by the client.
pub(super) struct CancellableRequests<S> {
    service: S,
    /// The requests that may not have ended.
    ongoing: HashMap<RequestId, AbortHandle>,
    /// Number of requests at which the ended ones are forgotten.
    forgets_at: usize,
}

impl<S> CancellableRequests<S> {
    pub(super) fn new(service: S) -> CancellableRequests<S> {
        CancellableRequests { service, ongoing: HashMap::new(), forgets_at: MIN_FORGOTTEN }
    }
}

impl<S> Service<AnyRequest> for CancellableRequests<S>
where
    S: LspService<Response = serde_json::Value, Error = ResponseError>,
    S::Future: Send + 'static,
{
    type Response = serde_json::Value;
    type Error = ResponseError;
    type Future = BoxFuture<'static, Result<serde_json::Value, ResponseError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ResponseError>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: AnyRequest) -> Self::Future {
        if self.ongoing.len() >= self.forgets_at {
            self.ongoing.retain(|_, handle| !handle.is_aborted());
            self.forgets_at = (self.ongoing.len() * 2).max(MIN_FORGOTTEN);
        }
        let (handle, registration) = AbortHandle::new_pair();
        self.ongoing.insert(request.id.clone(), handle.clone());
        let answer = Abortable::new(self.service.call(request), registration);
        Box::pin(async move {
            let answer = answer.await;
            // From now on it counts as ended.
            handle.abort();
            answer.unwrap_or_else(|_| {
                Err(ResponseError::new(ErrorCode::REQUEST_CANCELLED, "the client has cancelled the request"))
            })
        })
    }
}

impl<S> LspService for CancellableRequests<S>
where
    S: LspService<Response = serde_json::Value, Error = ResponseError>,
    S::Future: Send + 'static,
{
    fn notify(&mut self, notification: AnyNotification) -> ControlFlow<async_lsp::Result<()>> {
        if notification.method != Cancel::METHOD {
            return self.service.notify(notification);
        }
        let cancelled = serde_json::from_value::<CancelParams>(notification.params).ok();
        if let Some(handle) = cancelled.and_then(|cancelled| self.ongoing.remove(&cancelled.id)) {
            handle.abort();
        }
        ControlFlow::Continue(())
    }

    fn emit(&mut self, event: AnyEvent) -> ControlFlow<async_lsp::Result<()>> {
        self.service.emit(event)
    }
}
