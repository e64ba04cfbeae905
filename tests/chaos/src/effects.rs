//! The outside world of the runs: a server that records every request, and a model whose answers follow from the
//! conversation.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::model;

/// A request that arrived.
#[derive(Clone, Debug)]
pub(crate) struct RecordedRequest {
    pub(crate) method: String,
    /// The path without its query.
    pub(crate) path: String,
    /// The tag of the run that sent it, if the request contains one.
    pub(crate) tag: Option<String>,
    /// The `Idempotency-Key`.
    pub(crate) key: Option<String>,
    pub(crate) body: String,
    /// Time since the server was started.
    pub(crate) at: Duration,
}

/// The server. Its threads end with the process.
pub(crate) struct EffectServer {
    pub(crate) address: SocketAddr,
    log: Arc<RequestLog>,
}

struct RequestLog {
    started: Instant,
    requests: Mutex<Vec<RecordedRequest>>,
    /// Number of requests to endpoints that fail the first time, by tag and path.
    tries: Mutex<HashMap<String, usize>>,
}

impl EffectServer {
    /// Starts the server on a free port.
    pub(crate) fn start() -> std::io::Result<EffectServer> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let log = RequestLog { started: Instant::now(), requests: Mutex::default(), tries: Mutex::default() };
        let log = Arc::new(log);
        let shared = log.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let log = shared.clone();
                // A client that dies in the middle of a request is expected.
                std::thread::spawn(move || drop(serve_connection(&stream, &log)));
            }
        });
        Ok(EffectServer { address, log })
    }

    /// The requests of a run, in the order in which they arrived.
    pub(crate) fn requests_of(&self, tag: &str) -> Vec<RecordedRequest> {
        let requests = self.log.requests.lock();
        requests.iter().filter(|request| request.tag.as_deref() == Some(tag)).cloned().collect()
    }

    /// The time of a moment since the server was started, as requests have it.
    pub(crate) fn time_of(&self, moment: Instant) -> Duration {
        moment.saturating_duration_since(self.log.started)
    }

    /// Number of all requests.
    pub(crate) fn request_count(&self) -> usize {
        self.log.requests.lock().len()
    }
}

fn serve_connection(stream: &TcpStream, log: &RequestLog) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    while let Some((request, delay)) = read_request(&mut reader, log.started)? {
        log.requests.lock().push(request.clone());
        std::thread::sleep(delay);
        let (status, content_type, body) = answer_request(&request, log);
        let head =
            format!("HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n", body.len());
        let mut stream = stream;
        stream.write_all(format!("{head}{body}").as_bytes())?;
    }
    Ok(())
}

/// Reads a request, and how long its response takes; `None` at the end of the connection.
fn read_request(
    reader: &mut BufReader<&TcpStream>,
    started: Instant,
) -> std::io::Result<Option<(RecordedRequest, Duration)>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or_default().to_owned(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let find = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
    };
    let (path, tag, delay_ms) = (path.to_owned(), find("tag"), find("ms").and_then(|ms| ms.parse().ok()));
    let (mut key, mut length, mut user) = (None, 0, None);
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header)? == 0 || header.trim_end().is_empty() {
            break;
        }
        let (name, value) = header.trim_end().split_once(": ").unwrap_or_default();
        match name.to_ascii_lowercase().as_str() {
            "idempotency-key" => key = Some(value.to_owned()),
            "content-length" => length = value.parse().unwrap_or(0),
            "x-user-id" => user = Some(value.to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = String::from_utf8_lossy(&body).into_owned();
    let tag = tag.or(user).or_else(|| find_tag(&body));
    let request = RecordedRequest { method, path, tag, key, body, at: started.elapsed() };
    Ok(Some((request, Duration::from_millis(delay_ms.unwrap_or(10)))))
}

/// The first tag in a text: `run-` and what belongs to it.
fn find_tag(text: &str) -> Option<String> {
    let rest = &text[text.find("run-")?..];
    let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-').unwrap_or(rest.len());
    Some(rest[..end].to_owned())
}

fn answer_request(request: &RecordedRequest, log: &RequestLog) -> (&'static str, &'static str, String) {
    if request.path == "/v1/chat/completions" {
        let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
        return ("200 OK", "text/event-stream", model::answer_stream(&body));
    }
    let name = request.path.rsplit('/').next().unwrap_or_default();
    if request.path.starts_with("/flaky/") || request.path.starts_with("/broken/") {
        let place = format!("{} {}", request.tag.as_deref().unwrap_or_default(), request.path);
        let mut tries = log.tries.lock();
        let tried = tries.entry(place).or_default();
        *tried += 1;
        if *tried == 1 {
            // The program tries the one again by itself, and not the other.
            let is_flaky = request.path.starts_with("/flaky/");
            let status = if is_flaky { "503 Service Unavailable" } else { "400 Bad Request" };
            return (status, "application/json", "{}".to_owned());
        }
    }
    ("200 OK", "application/json", json!({ "reply": format!("{name} done") }).to_string())
}
