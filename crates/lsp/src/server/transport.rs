//! Streams of tokio as the protocol library reads them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::{AsyncRead, AsyncWrite};
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

impl<S: tokio::io::AsyncWrite + Unpin> AsyncWrite for TokioStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
