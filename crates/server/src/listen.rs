//! Accepts connections: limits their number, and how long a client may take to send a request and to receive the
//! response.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use flowloom_app::config::server::ServerSettings;
use flowloom_runtime::descriptors;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Sleep, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::guard::GuardedRouter;
use crate::open_connections::{OpenConnection, OpenConnections};
use crate::peer::{OwnerFinder, PeerOwner};

/// Maximum size of a request head, and of buffered output per connection, in bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// Delay before accepting again after a failure, for example when no file descriptors are left.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Maximum number of open connections: fewer than configured if the limit of open files is low.
pub(crate) fn limit_connections(settings: &ServerSettings) -> usize {
    settings.connections.clamp(1, descriptors::raise_limit())
}

/// Serves connections until the server is stopped, then until pending responses are sent. `finds_owner` notes for each
/// connection which user of this machine made it.
pub(crate) async fn serve_connections(
    listener: TcpListener,
    router: GuardedRouter,
    settings: &ServerSettings,
    finds_owner: bool,
    shutdown: CancellationToken,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(settings.head_timeout())
        .max_header_size(MAX_HEAD_BYTES)
        .max_buf_size(MAX_HEAD_BYTES);
    let timeout = settings.send_timeout();
    let open = OpenConnections::new(limit_connections(settings));
    let connections = TaskTracker::new();
    let finder = finds_owner.then(OwnerFinder::open);
    while let Some((stream, peer, connection)) = accept_next(&listener, &open, &shutdown).await {
        let (http, router) = (http.clone(), router.clone());
        let finder = finder.clone();
        connections.spawn(async move {
            let owner = match (finder, stream.local_addr()) {
                (Some(finder), Ok(local)) => Some(finder.find_owner(local, peer).await),
                _ => None,
            };
            let connected = Connected { peer, owner };
            let stream = TimeoutStream { stream, timeout, write_timer: None };
            serve_connection(&http, stream, connected, router, connection).await;
        });
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// Accepts the next connection and finds a place for it; `None` when the server stops.
async fn accept_next(
    listener: &TcpListener,
    open: &Arc<OpenConnections>,
    shutdown: &CancellationToken,
) -> Option<(TcpStream, SocketAddr, OpenConnection)> {
    let accepted = async {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    // A token of its own: connections that share one take turns at its lock whenever they are polled.
                    // Further connections wait in the kernel's queue.
                    return (stream, peer, open.add_connection(shutdown.child_token()).await);
                }
                Err(_) => sleep(ACCEPT_RETRY_DELAY).await,
            }
        }
    };
    shutdown.run_until_cancelled(accepted).await
}

/// The other end of a connection.
#[derive(Clone, Copy)]
struct Connected {
    peer: SocketAddr,
    owner: Option<PeerOwner>,
}

async fn serve_connection(
    http: &http1::Builder,
    stream: TimeoutStream,
    connected: Connected,
    router: GuardedRouter,
    open: OpenConnection,
) {
    // Events are small and should be sent immediately; without TCP_NODELAY they are sent a little later.
    let _ = stream.stream.set_nodelay(true);
    let tracker = open.track_requests();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(connected.peer));
        connected.owner.and_then(|owner| request.extensions_mut().insert(owner));
        let (router, tracker) = (router.clone(), tracker.clone());
        async move {
            let answer = router.handle_request(request.map(Body::new));
            Ok::<_, Infallible>(tracker.track_request(answer).await)
        }
    });
    let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service));
    // A broken connection concerns only its client.
    tokio::select! {
        _ = &mut connection => {}
        () = open.wait_for_closing() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

/// A connection that breaks if its client accepts no data for too long. Buffered data is bounded: 64 KiB and one
/// event here, plus the queue of each subscription.
struct TimeoutStream {
    stream: TcpStream,
    timeout: Duration,
    /// Timer that runs while the client does not accept data.
    write_timer: Option<Pin<Box<Sleep>>>,
}

impl TimeoutStream {
    fn check_write(&mut self, context: &mut Context<'_>, sent: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if sent.is_ready() {
            self.write_timer = None;
            return sent;
        }
        let timeout = self.timeout;
        ready!(self.write_timer.get_or_insert_with(|| Box::pin(sleep(timeout))).as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncWrite for TimeoutStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.check_write(context, sent)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.check_write(context, sent)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl AsyncRead for TimeoutStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}
