//! One request and its response over a socket without TLS.

use std::error::Error;
use std::future::{self, Future};
use std::io;
use std::str::FromStr;
use std::sync::Arc;

use bytes::BytesMut;
use futures_util::future::Either;
use hyper_util::client::legacy::connect::HttpConnector;
use reqwest::Url;
use reqwest::header::HeaderMap;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tower_service::Service as _;

use super::body::{self, PlainBody};
use super::head::{self, ResponseHead};
use super::pool::ConnectionPool;
use super::{CONNECT_TIMEOUT, HttpReply};
use crate::remote::error::ProviderError;

/// Interval of keep-alive probes on an idle connection, so that devices in between do not drop it.
const KEEPALIVE_INTERVAL: std::time::Duration = std::time::Duration::from_secs(15);

/// Opens connections and reuses them.
pub(super) struct PlainClient {
    connector: HttpConnector,
    pool: Arc<ConnectionPool>,
}

impl PlainClient {
    pub(super) fn new() -> PlainClient {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_keepalive(Some(KEEPALIVE_INTERVAL));
        connector.set_nodelay(true);
        PlainClient { connector, pool: Arc::default() }
    }

    /// Not an `async fn`: such a future has room for its arguments, and many calls wait in it.
    pub(super) fn post_json<'a>(
        &'a self,
        url: Url,
        headers: &HeaderMap,
        body: &str,
    ) -> impl Future<Output = Result<HttpReply, ProviderError>> + use<'a> {
        let request = head::write_request(&url, headers, body);
        let server = head::host_header(&url);
        let opening = match self.pool.take_connection(&server) {
            Some(stream) => Either::Left(future::ready(Ok(stream))),
            None => Either::Right(Box::pin(self.open_connection(url))),
        };
        async move {
            let (stream, read, head) = exchange_head(opening.await?, request)
                .await
                .map_err(|error| ProviderError::ConnectionFailed(error.into()))?;
            let ResponseHead { status, headers, framing, is_reusable } = head;
            let home = is_reusable.then(|| (self.pool.clone(), server));
            let body = super::ReplyBody::Plain(PlainBody::new(stream, read, framing, home));
            Ok(HttpReply { status, headers, body })
        }
    }

    async fn open_connection(&self, url: Url) -> Result<TcpStream, ProviderError> {
        let connected = self.connector.clone().call(parse_address(&url)?).await;
        Ok(connected.map_err(|error| ProviderError::ConnectionFailed(error.into()))?.into_inner())
    }
}

/// The URL in the type that the connector takes.
fn parse_address<T: FromStr<Err: Error + Send + Sync + 'static>>(url: &Url) -> Result<T, ProviderError> {
    url.as_str().parse().map_err(|error: T::Err| ProviderError::ConnectionFailed(error.into()))
}

/// Sends a request and reads the head of its response. Also returns the bytes read after the head.
///
/// Reads while writing: a server may reject a request, and close the connection, before it has read all of it.
async fn exchange_head(stream: TcpStream, mut request: Vec<u8>) -> io::Result<(TcpStream, BytesMut, ResponseHead)> {
    let (mut sent, mut broken, mut read) = (0, None, BytesMut::new());
    loop {
        let is_sending = sent < request.len();
        let interest = if is_sending { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        let ready = stream.ready(interest).await?;
        if is_sending && ready.is_writable() {
            match stream.try_write(&request[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The server may have sent the reason.
                Err(error) => (sent, broken) = (request.len(), Some(error)),
            }
            if sent == request.len() {
                // Free the request while waiting for the response.
                (sent, request) = (0, Vec::new());
            }
        }
        if !ready.is_readable() {
            continue;
        }
        match body::fill_buffer(&stream, &mut read) {
            Ok(Some(0)) => return Err(broken.unwrap_or_else(closed_by_server)),
            Ok(_) => {}
            Err(error) => return Err(broken.unwrap_or(error)),
        }
        if let Some(mut head) = head::take_head(&mut read)? {
            head.is_reusable &= request.is_empty() && broken.is_none();
            return Ok((stream, read, head));
        }
    }
}

fn closed_by_server() -> io::Error {
    let why: Box<dyn Error + Send + Sync> = "the server closed the connection before it answered".into();
    io::Error::new(io::ErrorKind::UnexpectedEof, why)
}
