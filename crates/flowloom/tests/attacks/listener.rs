//! Servers of the attacker and of the victim: a receiver that requests may reach, and a listener that they may not.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;

/// A TCP server that nothing may contact.
pub(crate) struct ForbiddenListener {
    pub(crate) port: u16,
    contacts: Arc<Mutex<Vec<String>>>,
}

impl ForbiddenListener {
    /// Listens on a free port of all addresses, and on `more` ports.
    pub(crate) fn start(more: &[u16]) -> ForbiddenListener {
        let contacts: Arc<Mutex<Vec<String>>> = Arc::default();
        let mut first = 0;
        for port in [0].iter().chain(more) {
            // All addresses of both families, where the machine has both.
            let listener = TcpListener::bind(("::", *port)).or_else(|_| TcpListener::bind(("0.0.0.0", *port)));
            let listener = listener.expect("a port");
            if *port == 0 {
                first = listener.local_addr().expect("an address").port();
            }
            let contacts = Arc::clone(&contacts);
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    record_contact(stream, &contacts);
                }
            });
        }
        ForbiddenListener { port: first, contacts }
    }

    /// The contacts since the last call.
    pub(crate) fn take_contacts(&self) -> Vec<String> {
        std::mem::take(&mut *self.contacts.lock())
    }
}

fn record_contact(mut stream: TcpStream, contacts: &Mutex<Vec<String>>) {
    let at = stream.local_addr().map(|address| address.to_string()).unwrap_or_default();
    contacts.lock().push(at);
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\nconnection: close\r\n\r\nforbidden");
}

/// An HTTP server that records its requests.
pub(crate) struct RecordingServer {
    pub(crate) address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl RecordingServer {
    /// Starts a server whose connections `answer` answers, each on its own thread. It adds what it received.
    pub(crate) fn start(answer: fn(TcpStream, &Mutex<Vec<String>>)) -> RecordingServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let shared = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let requests = Arc::clone(&shared);
                std::thread::spawn(move || answer(stream, &requests));
            }
        });
        RecordingServer { address, requests }
    }

    /// The requests received since the last call.
    pub(crate) fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock())
    }
}

/// Starts a server that requests may reach. `/redirect?URL` redirects, `/text?HEX` responds with a text,
/// `/body?TYPE?HEX` with bytes in this content encoding, `/bomb?SIZE` with so many compressed mebibytes, and everything
/// else with the request. It records heads and bodies.
pub(crate) fn start_receiver() -> RecordingServer {
    RecordingServer::start(answer_request)
}

fn answer_request(mut stream: TcpStream, requests: &Mutex<Vec<String>>) {
    let Ok(handle) = stream.try_clone() else { return };
    let Some((head, body)) = read_request(&mut BufReader::new(handle)) else { return };
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let text = format!("{head}{body}");
    requests.lock().push(text.clone());
    let _ = stream.write_all(&build_reply(&path, &text));
}

/// Reads a request: its head, and its body if it has a length.
pub(crate) fn read_request(reader: &mut impl BufRead) -> Option<(String, String)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = Vec::new();
        if reader.read_until(b'\n', &mut line).ok()? == 0 {
            return None;
        }
        let line = String::from_utf8_lossy(&line);
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        head += &line;
        if line.len() <= 2 {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, String::from_utf8_lossy(&body).into_owned()))
}

fn build_reply(path: &str, request: &str) -> Vec<u8> {
    if let Some((_, target)) = path.split_once("/redirect?") {
        let target = decode_percent(target);
        return format!("HTTP/1.1 302 Found\r\nlocation: {target}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            .into_bytes();
    }
    if let Some((_, mebibytes)) = path.split_once("/bomb?") {
        return gzip_reply(&compress_zeros(mebibytes.parse().unwrap_or(1)));
    }
    if let Some((_, hex)) = path.split_once("/text?") {
        return page_reply(&decode_hex(hex));
    }
    let encoded = path.split_once("/body?").and_then(|(_, rest)| rest.split_once('?'));
    let (encoding, body) = match encoded {
        Some((encoding, hex)) => (format!("content-encoding: {encoding}\r\n"), decode_hex(hex)),
        None => (String::new(), serde_json::json!({ "request": request }).to_string().into_bytes()),
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{encoding}content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), &body].concat()
}

fn page_reply(text: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        text.len()
    );
    [head.as_bytes(), text].concat()
}

fn gzip_reply(body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

fn compress_zeros(mebibytes: usize) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let chunk = vec![0; 1 << 20];
    (0..mebibytes).for_each(|_| encoder.write_all(&chunk).expect("memory"));
    encoder.finish().expect("memory")
}

fn decode_percent(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let coded = after.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        match coded.and_then(|pair| u8::from_str_radix(pair, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn decode_hex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks(2).filter_map(|pair| std::str::from_utf8(pair).ok());
    pairs.filter_map(|pair| u8::from_str_radix(pair, 16).ok()).collect()
}
