//! The only place where a run branches: child futures that live and die with their parent's future.
//!
//! Nothing is spawned. A run is one task that polls its branches, so a seeded executor can drive all of it, and
//! dropping the run drops (cancels) everything below it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::effects::BoxFuture;

/// Maximum size of the futures that every step allocates: thousands of runs may wait, each with several of them, and a large
/// one takes longer to allocate and to move.
const SMALL_FUTURE_BYTES: usize = 768;

/// Boxes a future that every step needs. Does not compile if it is large: what only some steps need is boxed by itself.
pub(crate) fn box_small<'a, F: Future + Send + 'a>(future: F) -> BoxFuture<'a, F::Output> {
    const { assert!(size_of::<F>() <= SMALL_FUTURE_BYTES, "a future that every step allocates is too large") }
    Box::pin(future)
}

/// Children that run concurrently, each with an index.
pub(crate) struct ChildScope<F: Future + Unpin> {
    children: FuturesUnordered<Indexed<F>>,
}

impl<F: Future + Unpin> ChildScope<F> {
    pub(crate) fn new() -> ChildScope<F> {
        ChildScope { children: FuturesUnordered::new() }
    }

    /// Adds a child.
    pub(crate) fn start_child(&mut self, index: usize, child: F) {
        self.children.push(Indexed { index, child });
    }

    /// The next child to finish; `None` when there are none.
    pub(crate) async fn next(&mut self) -> Option<(usize, F::Output)> {
        self.children.next().await
    }
}

/// The outputs of all children, in order. A child that is ready immediately is never queued.
pub(crate) async fn join_all<F: Future + Unpin>(children: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut scope = ChildScope::new();
    let mut outputs: Vec<Option<F::Output>> = Vec::with_capacity(children.size_hint().0);
    let mut children = children.enumerate();
    poll_fn(|context| {
        for (index, mut child) in children.by_ref() {
            match Pin::new(&mut child).poll(context) {
                Poll::Ready(output) => outputs.push(Some(output)),
                Poll::Pending => {
                    outputs.push(None);
                    scope.start_child(index, child);
                }
            }
        }
        Poll::Ready(())
    })
    .await;
    while let Some((index, output)) = scope.next().await {
        outputs[index] = Some(output);
    }
    outputs.into_iter().flatten().collect()
}

/// The output of `work`, or `None` if the limit completes first; the work is then dropped. The limit starts when the work
/// waits for the first time: most work never does, and needs no timer.
pub(crate) async fn run_until<T, L: Future<Output = ()> + Unpin>(
    mut work: impl Future<Output = T> + Unpin,
    start_limit: impl Fn() -> L,
) -> Option<T> {
    let mut limit = None;
    poll_fn(|context| match Pin::new(&mut work).poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Pin::new(limit.get_or_insert_with(&start_limit)).poll(context).map(|()| None),
    })
    .await
}

/// Returns control to what polls the run, once.
pub(crate) async fn yield_once() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

struct Indexed<F> {
    index: usize,
    child: F,
}

impl<F: Future + Unpin> Future for Indexed<F> {
    type Output = (usize, F::Output);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let index = self.index;
        Pin::new(&mut self.child).poll(context).map(|output| (index, output))
    }
}
