//! A client for HTTP/1.0: one connection for each request, so that the death of the server ends it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A request to a server of the program.
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    pub(crate) target: &'a str,
    /// The `Idempotency-Key`.
    pub(crate) key: Option<&'a str>,
    pub(crate) body: Option<&'a Value>,
    /// How long the client waits for the next byte.
    pub(crate) timeout: Duration,
}

/// A response whose head was read.
pub(crate) struct Response {
    pub(crate) status: u16,
    reader: BufReader<TcpStream>,
}

/// The server died, did not answer in time, or was not there.
#[derive(Debug)]
pub(crate) struct ConnectionLost;

impl From<std::io::Error> for ConnectionLost {
    fn from(_: std::io::Error) -> ConnectionLost {
        ConnectionLost
    }
}

impl<'a> Request<'a> {
    pub(crate) fn get(target: &'a str) -> Request<'a> {
        Request { method: "GET", target, key: None, body: None, timeout: Duration::from_secs(15) }
    }

    pub(crate) fn post(target: &'a str, key: Option<&'a str>, body: Option<&'a Value>) -> Request<'a> {
        Request { method: "POST", key, body, ..Request::get(target) }
    }

    /// Sends the request and reads the head of the response.
    pub(crate) fn send(&self, address: SocketAddr) -> Result<Response, ConnectionLost> {
        let mut stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
        stream.set_read_timeout(Some(self.timeout))?;
        let mut head = format!("{} {} HTTP/1.0\r\nHost: {address}\r\n", self.method, self.target);
        if let Some(key) = self.key {
            head.push_str(&format!("Idempotency-Key: {key}\r\n"));
        }
        let body = self.body.map(Value::to_string).unwrap_or_default();
        if self.body.is_some() {
            head.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes())?;
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(ConnectionLost)?;
        while reader.read_line(&mut line)? > 0 && line.ends_with('\n') && !line.ends_with("\n\r\n") {}
        Ok(Response { status, reader })
    }

    /// Sends the request and reads the whole response as JSON; `null` if it is not JSON.
    pub(crate) fn send_json(&self, address: SocketAddr) -> Result<(u16, Value), ConnectionLost> {
        let mut response = self.send(address)?;
        let mut body = Vec::new();
        response.reader.read_to_end(&mut body)?;
        let value = serde_json::from_slice(&body).unwrap_or_default();
        match (&value, body.is_empty()) {
            // A body that ends in the middle: the server died while it wrote.
            (Value::Null, false) => Err(ConnectionLost),
            _ => Ok((response.status, value)),
        }
    }
}

/// An event of a stream of server-sent events.
pub(crate) struct StreamEvent {
    pub(crate) name: String,
    pub(crate) data: String,
}

impl Response {
    /// The next event of a stream. A stream that ends without `done` was cut off.
    pub(crate) fn next_event(&mut self) -> Result<StreamEvent, ConnectionLost> {
        let (mut name, mut data) = (String::new(), String::new());
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line)? == 0 || !line.ends_with('\n') {
                return Err(ConnectionLost);
            }
            match line.trim_end().split_once(": ") {
                Some(("event", text)) => name = text.to_owned(),
                Some(("data", text)) => data = text.to_owned(),
                _ if line.trim_end().is_empty() && !name.is_empty() => return Ok(StreamEvent { name, data }),
                _ => {}
            }
        }
    }
}
