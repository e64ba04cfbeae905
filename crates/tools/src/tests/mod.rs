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
mod user_files;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use flowloom_core::effect::Request;
use flowloom_core::event::ChildSuspension;
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::rich::Rich;
use flowloom_core::value::Value;
use flowloom_runtime::effects::{BoxFuture, ChildEffects, Deltas, EffectContext, EffectFuture};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::egress::EgressPolicy;
use crate::http::{HttpClient, HttpLimits, RequestSender};

/// A server on the loopback interface that answers each request with the result of `answer`, then closes.
struct TestServer {
    port: u16,
    seen: Arc<Mutex<Vec<SeenRequest>>>,
    task: tokio::task::JoinHandle<()>,
}

/// A request as it arrived.
#[derive(Clone, Debug)]
struct SeenRequest {
    line: String,
    headers: BTreeMap<String, String>,
    body: String,
}

impl SeenRequest {
    fn get_header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl TestServer {
    async fn start_with(answer: impl Fn(&SeenRequest) -> Vec<u8> + Send + Sync + 'static) -> TestServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (seen.clone(), Arc::new(answer));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve_connection(stream, log.clone(), answer.clone()));
            }
        });
        TestServer { port, seen, task }
    }

    /// A server with the same answer for all requests.
    async fn start_fixed(answer: impl Into<Vec<u8>>) -> TestServer {
        let answer = answer.into();
        TestServer::start_with(move |_| answer.clone()).await
    }

    fn url_of(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn host_port(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn seen_requests(&self) -> Vec<SeenRequest> {
        self.seen.lock().expect("no panic").clone()
    }
}

async fn serve_connection(
    mut stream: TcpStream,
    log: Arc<Mutex<Vec<SeenRequest>>>,
    answer: Arc<impl Fn(&SeenRequest) -> Vec<u8>>,
) {
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
    let seen = SeenRequest { line, headers, body };
    let reply = answer(&seen);
    log.lock().expect("no panic").push(seen);
    // A client may close before it has read everything.
    let _ = stream.write_all(&reply).await;
    let _ = stream.shutdown().await;
}

/// A complete response.
fn http_reply(status: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let mut out = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n", body.len()).into_bytes();
    for (name, value) in headers {
        out.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
    out
}

fn html_reply(body: &str) -> Vec<u8> {
    http_reply("200 OK", &[("content-type", "text/html; charset=utf-8")], body)
}

/// A client that may reach these servers, with the secrets of the tests.
fn client_for(servers: &[&TestServer]) -> Arc<HttpClient> {
    let policy = EgressPolicy::with_allow_list(servers.iter().map(|server| server.host_port())).expect("places");
    client_with(policy, HttpLimits::default())
}

fn client_with(policy: EgressPolicy, limits: HttpLimits) -> Arc<HttpClient> {
    let secrets = [("KEY", "s3cret/+ \"value"), ("INJECT", "a\r\nx-evil: 1")];
    let secrets: BTreeMap<String, String> = secrets.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    Arc::new(HttpClient::new(policy, Arc::new(secrets), limits))
}

fn sender() -> RequestSender<'static> {
    RequestSender::with_key("k")
}

/// Text in which `${secret.NAME}` is a secret.
fn rich_text(text: &str) -> Rich {
    crate::secrets::parse_secret_text(text)
}

struct NoDeltas;

impl Deltas for NoDeltas {
    fn push(&self, _path: &Path, _attempt: u32, _text: &str) {}
}

/// For functions that have no child effects.
struct NoChildEffects;

impl ChildEffects for NoChildEffects {
    fn perform_request<'a>(&'a self, _request: Request) -> EffectFuture<'a, Value> {
        unreachable!("nothing is asked of the run")
    }

    fn report_progress(&self, _name: &'static str, _data: Value) {}

    fn resume_count(&self) -> u64 {
        0
    }

    fn wait_for_child<'a>(&'a self, _child: ChildSuspension, _seen: u64) -> BoxFuture<'a, ()> {
        unreachable!("no function has a child run")
    }

    fn record_child_resumed(&self, _run: RunId) {}
}

fn test_context() -> EffectContext {
    EffectContext {
        run: RunId::new(0, [7; 10]),
        epoch: 1,
        path: Path::root(),
        attempt: 1,
        retried_attempt: 0,
        user: "local".into(),
        agent: None,
        definition: Arc::default(),
        depth: 0,
        trace: None,
        asks_first: false,
        allowance: None,
        deltas: Arc::new(NoDeltas),
    }
}
