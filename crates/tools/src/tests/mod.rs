//! Test support: a loopback server that records requests, and the context of a call.
//!
//! No test leaves the loopback interface. A refusal is tested with a name or port that would reach our own server if
//! the policy failed, or with the policy's pure functions.

mod egress;
mod files;
mod functions;
mod http;
mod mcp;
mod scrape;
mod search;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use flowloom_core::effect::Request;
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::rich::Rich;
use flowloom_core::value::Value;
use flowloom_runtime::effects::{Context, Deltas, Reply, Substeps};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::egress::EgressPolicy;
use crate::http::{HttpClient, HttpLimits};

/// A server on the loopback interface that answers each request with the result of `answer`, then closes.
struct Server {
    port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: tokio::task::JoinHandle<()>,
}

/// A request as it arrived.
#[derive(Clone, Debug)]
struct Seen {
    line: String,
    headers: BTreeMap<String, String>,
    body: String,
}

impl Seen {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    async fn start(answer: impl Fn(&Seen) -> Vec<u8> + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (seen.clone(), Arc::new(answer));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, log.clone(), answer.clone()));
            }
        });
        Server { port, seen, task }
    }

    /// A server with the same answer for all requests.
    async fn fixed(answer: impl Into<Vec<u8>>) -> Server {
        let answer = answer.into();
        Server::start(move |_| answer.clone()).await
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn place(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no panic").clone()
    }
}

async fn serve(mut stream: TcpStream, log: Arc<Mutex<Vec<Seen>>>, answer: Arc<impl Fn(&Seen) -> Vec<u8>>) {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return;
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let mut lines = text.split("\r\n");
    let line = lines.next().unwrap_or_default().to_owned();
    let headers: BTreeMap<String, String> =
        lines.filter_map(|row| row.split_once(": ")).map(|(k, v)| (k.to_lowercase(), v.to_owned())).collect();
    let length: usize = headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    while bytes.len() < head + 4 + length {
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let body = String::from_utf8_lossy(&bytes[head + 4..]).into_owned();
    let seen = Seen { line, headers, body };
    let reply = answer(&seen);
    log.lock().expect("no panic").push(seen);
    // A client may close before it has read everything.
    let _ = stream.write_all(&reply).await;
    let _ = stream.shutdown().await;
}

/// A complete response.
fn reply(status: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let mut out = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n", body.len()).into_bytes();
    for (name, value) in headers {
        out.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
    out
}

fn html(body: &str) -> Vec<u8> {
    reply("200 OK", &[("content-type", "text/html; charset=utf-8")], body)
}

/// A client that may reach these servers, with the secrets of the tests.
fn client(servers: &[&Server]) -> Arc<HttpClient> {
    let policy = EgressPolicy::allowing(servers.iter().map(|server| server.place())).expect("places");
    client_of(policy, HttpLimits::default())
}

fn client_of(policy: EgressPolicy, limits: HttpLimits) -> Arc<HttpClient> {
    let secrets = [("KEY", "s3cret/+ \"value"), ("INJECT", "a\r\nx-evil: 1")];
    let secrets: BTreeMap<String, String> = secrets.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    Arc::new(HttpClient::new(policy, Arc::new(secrets), limits))
}

/// Text in which `${secret.NAME}` is a secret.
fn rich(text: &str) -> Rich {
    crate::secrets::read_text(text)
}

struct NoDeltas;

impl Deltas for NoDeltas {
    fn push(&self, _path: &Path, _attempt: u32, _text: &str) {}
}

/// For functions that have no child effects.
struct NoSubsteps;

impl Substeps for NoSubsteps {
    fn perform<'a>(&'a self, _request: Request) -> Reply<'a, Value> {
        unreachable!("nothing is asked of the run")
    }

    fn tell(&self, _name: &'static str, _data: Value) {}
}

fn context() -> Context {
    Context {
        run: RunId::new(0, [7; 10]),
        path: Path::root(),
        attempt: 1,
        owner: "local".into(),
        agent: None,
        depth: 0,
        purse: None,
        deltas: Arc::new(NoDeltas),
    }
}
