//! One request and its response over a socket without TLS.

use std::error::Error;
use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use hyper_util::client::legacy::connect::HttpConnector;
use reqwest::Url;
use reqwest::header::HeaderMap;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tower_service::Service as _;

use super::body::{self, Body};
use super::head::{self, Head};
use super::pool::Pool;
use super::{CONNECT, Reply};
use crate::remote::failure::Failure;

/// Interval of keep-alive probes on an idle connection, so that devices in between do not drop it.
const PROBE: std::time::Duration = std::time::Duration::from_secs(15);

/// Opens connections and reuses them.
pub(super) struct Plain {
    connector: HttpConnector,
    pool: Arc<Pool>,
}

impl Plain {
    pub(super) fn new() -> Plain {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT));
        connector.set_keepalive(Some(PROBE));
        connector.set_nodelay(true);
        Plain { connector, pool: Arc::default() }
    }

    pub(super) async fn post(&self, url: &Url, headers: HeaderMap, body: String) -> Result<Reply, Failure> {
        let request = head::request(url, &headers, &body);
        drop((headers, body));
        let server = head::server(url);
        let stream = match self.pool.take(&server) {
            Some(stream) => stream,
            None => Box::pin(self.connect(url)).await?,
        };
        let (stream, read, head) = exchange(stream, request).await.map_err(|error| Failure::lost(&error))?;
        let Head { status, headers, framing, is_kept } = head;
        let home = is_kept.then(|| (self.pool.clone(), server));
        let body = super::Body::Plain(Body::new(stream, read, framing, home));
        Ok(Reply { status, headers, body })
    }

    async fn connect(&self, url: &Url) -> Result<TcpStream, Failure> {
        let address = url.as_str().parse().map_err(|error| Failure::lost(&error))?;
        let connected = self.connector.clone().call(address).await;
        Ok(connected.map_err(|error| Failure::lost(&error))?.into_inner())
    }
}

/// Sends a request and reads the head of its response. Also returns the bytes read after the head.
///
/// Reads while writing: a server may reject a request, and close the connection, before it has read all of it.
async fn exchange(stream: TcpStream, mut request: Vec<u8>) -> io::Result<(TcpStream, BytesMut, Head)> {
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
        match body::fill(&stream, &mut read) {
            Ok(Some(0)) => return Err(broken.unwrap_or_else(hung_up)),
            Ok(_) => {}
            Err(error) => return Err(broken.unwrap_or(error)),
        }
        if let Some(mut head) = head::take(&mut read)? {
            head.is_kept &= request.is_empty() && broken.is_none();
            return Ok((stream, read, head));
        }
    }
}

fn hung_up() -> io::Error {
    let why: Box<dyn Error + Send + Sync> = "the server closed the connection before it answered".into();
    io::Error::new(io::ErrorKind::UnexpectedEof, why)
}
