//! Streams of tokio as the protocol library reads them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::AsyncRead;
use tokio::io::ReadBuf;

/// A stream of tokio.
pub(super) struct TokioStream<S>(pub(super) S);

impl<S: tokio::io::AsyncRead + Unpin> AsyncRead for TokioStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut filled = ReadBuf::new(buffer);
        ready!(Pin::new(&mut self.0).poll_read(context, &mut filled))?;
        Poll::Ready(Ok(filled.filled().len()))
    }
}
