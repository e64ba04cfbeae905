//! A client for measuring servers: any number of connections, each sending one prepared request after another. It does
//! as little as possible, so that only the server is measured.

use std::net::SocketAddr;
use std::time::Instant;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::BenchError;

/// A response.
pub(crate) struct Response<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
}

impl<'a> Response<'a> {
    /// The body of a response with this status; an error with its body if the status is another one.
    pub(crate) fn require_status(&self, status: u16) -> Result<&'a [u8], BenchError> {
        if self.status == status {
            return Ok(self.body);
        }
        Err(format!("status {}: {}", self.status, String::from_utf8_lossy(self.body)).into())
    }
}

/// A keep-alive connection.
pub(crate) struct ClientConnection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl ClientConnection {
    pub(crate) async fn open(address: SocketAddr) -> Result<ClientConnection, BenchError> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(ClientConnection { stream, buffer: Vec::with_capacity(4096) })
    }

    /// Sends a request as is and reads its response.
    pub(crate) async fn send_request(&mut self, request: &[u8]) -> Result<Response<'_>, BenchError> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let (mut head, mut length) = (None, 0);
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err("the server closed the connection".into());
            }
            if head.is_none()
                && let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n")
            {
                length = content_length(&self.buffer[..end]).ok_or("the response has no Content-Length")?;
                head = Some(end + 4);
            }
            if let Some(start) = head
                && self.buffer.len() >= start + length
            {
                let status = std::str::from_utf8(&self.buffer[9..12])?.parse()?;
                return Ok(Response { status, body: &self.buffer[start..start + length] });
            }
        }
    }

    /// Sends a request whose response does not end, and returns the stream.
    pub(crate) async fn begin_stream(mut self, request: &[u8]) -> Result<TcpStream, BenchError> {
        self.stream.write_all(request).await?;
        Ok(self.stream)
    }
}

fn content_length(head: &[u8]) -> Option<usize> {
    let head = std::str::from_utf8(head).ok()?;
    let named = |line: &str| {
        line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))?.1.trim().parse().ok()
    };
    head.split("\r\n").find_map(named)
}

/// A request with a JSON body, or without a body.
pub(crate) fn build_request(method: &str, path: &str, body: &str) -> Vec<u8> {
    let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n");
    match body {
        "" => format!("{head}\r\n").into_bytes(),
        body => {
            let length = body.len();
            format!("{head}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
        }
    }
}

/// Duration in seconds of `count` calls over a number of connections. Every response must have status 200.
pub(crate) async fn measure_load(
    address: SocketAddr,
    request: &[u8],
    connections: usize,
    count: usize,
) -> Result<f64, BenchError> {
    let mut open = Vec::new();
    for _ in 0..connections {
        open.push(ClientConnection::open(address).await?);
    }
    let since = Instant::now();
    let caller = |mut connection: ClientConnection, request: Vec<u8>| async move {
        for _ in 0..count / connections {
            connection.send_request(&request).await?.require_status(200)?;
        }
        Ok::<_, BenchError>(())
    };
    let callers: Vec<_> =
        open.into_iter().map(|connection| tokio::spawn(caller(connection, request.to_vec()))).collect();
    for caller in callers {
        caller.await??;
    }
    Ok(since.elapsed().as_secs_f64())
}
