//! A client that sends any bytes, and reads whatever is answered.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// How long a response may take. An attack that takes longer fails.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Sends bytes on a connection of their own and returns everything that the server sends until it closes the connection.
pub(crate) fn exchange_bytes(address: &str, sent: &[u8], timeout: Duration) -> Vec<u8> {
    let Ok(mut stream) = TcpStream::connect(address) else { return Vec::new() };
    stream.set_read_timeout(Some(timeout)).expect("a timeout");
    // A server may answer and close before it has read everything.
    let _ = stream.write_all(sent);
    let mut received = Vec::new();
    let mut buffer = [0; 16 << 10];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        received.extend_from_slice(&buffer[..count]);
    }
    received
}

/// A request with HTTP/1.0, so that its response ends with the connection.
pub(crate) struct HttpCall<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) headers: Vec<String>,
    pub(crate) body: &'a [u8],
}

impl HttpCall<'_> {
    pub(crate) fn send(&self, address: &str) -> HttpReply {
        self.send_within(address, READ_TIMEOUT)
    }

    /// Sends the request; `timeout` bounds the wait for each part of the response.
    pub(crate) fn send_within(&self, address: &str, timeout: Duration) -> HttpReply {
        let mut head = format!("{} {} HTTP/1.0\r\nHost: {address}\r\n", self.method, self.path);
        for header in &self.headers {
            head += &format!("{header}\r\n");
        }
        head += &format!("Content-Length: {}\r\n\r\n", self.body.len());
        HttpReply::parse(&exchange_bytes(address, &[head.as_bytes(), self.body].concat(), timeout))
    }
}

/// The received data.
#[derive(Debug, Default)]
pub(crate) struct HttpReply {
    /// The status of the first response; 0 without one.
    pub(crate) status: u16,
    /// The body of the first response, or everything after it.
    pub(crate) body: String,
    /// Everything, including heads.
    pub(crate) text: String,
}

impl HttpReply {
    pub(crate) fn parse(received: &[u8]) -> HttpReply {
        let text = String::from_utf8_lossy(received).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        HttpReply { status, body: body.to_owned(), text }
    }

    /// The body as JSON, or null.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

/// Encodes a text as one segment of a path, or one value of a query.
pub(crate) fn encode_percent(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}
