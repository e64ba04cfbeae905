//! The target of HTTP heads: a server in this process, which receives every input on a connection of its own.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use flowloom_app::config::{Config, Overrides};
use flowloom_app::engines::App;
use flowloom_server::{ServerOptions, serve_http};

/// Starts of inputs that are requests; other inputs are headers of a request.
const METHODS: [&[u8]; 7] = [b"GET ", b"POST ", b"PUT ", b"PATCH ", b"DELETE ", b"HEAD ", b"OPTIONS "];

/// Time for a response, also on a busy machine.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);

/// The server answers every request in time and without a failure of its own. A request that succeeds names its host, or
/// reads the health, which needs none.
pub(crate) fn send_request(input: &[u8]) {
    static SERVER: OnceLock<SocketAddr> = OnceLock::new();
    let address = *SERVER.get_or_init(start_server);
    let request = match METHODS.iter().any(|method| input.starts_with(method)) {
        true => input.to_vec(),
        false => [format!("GET /api/v1/runs HTTP/1.1\r\nHost: {address}\r\n").as_bytes(), input, b"\r\n\r\n"].concat(),
    };
    let answer = exchange_bytes(address, &request);
    let Some(status) = read_status(&answer) else {
        assert!(answer.is_empty(), "the response is {:?}", String::from_utf8_lossy(&answer));
        return;
    };
    assert!(status < 500 || matches!(status, 501 | 505), "the status is {status}");
    let text = String::from_utf8_lossy(&request).to_ascii_lowercase();
    let is_allowed = ["127.0.0.1", "localhost", " /health"].iter().any(|part| text.contains(part));
    assert!(is_allowed || status >= 300, "{status} for no host");
}

/// The bytes that the server sends before it closes the connection.
fn exchange_bytes(address: SocketAddr, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(RESPONSE_TIMEOUT)).expect("a time");
    // A server that has read enough may have closed the connection.
    let _ = stream.write_all(request).and_then(|()| stream.shutdown(Shutdown::Write));
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        let is_late = matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut);
        assert!(!is_late, "no end of the response in time: {:?}", String::from_utf8_lossy(&answer));
    }
    answer
}

fn read_status(answer: &[u8]) -> Option<u16> {
    let line = answer.strip_prefix(b"HTTP/1.1 ").or_else(|| answer.strip_prefix(b"HTTP/1.0 "))?;
    std::str::from_utf8(line.get(..3)?).ok()?.parse().ok()
}

/// Starts the server on a thread that lives as long as the process.
fn start_server() -> SocketAddr {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        runtime.expect("a runtime").block_on(serve_until_exit(sender));
    });
    receiver.recv().expect("the server starts")
}

async fn serve_until_exit(sender: Sender<SocketAddr>) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("flowloom.toml");
    std::fs::write(&file, "default_model = \"scripted:echo\"\n").expect("written");
    let config = Config::load(Overrides { file: Some(file), ..Overrides::default() }).expect("a configuration");
    let options = ServerOptions {
        folder: folder.path().to_owned(),
        bind: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        hosts: Vec::new(),
        max_runs: 100,
        public_url: None,
        has_studio: false,
    };
    let running = serve_http(App::open(config).expect("a store"), options).await.expect("it listens");
    sender.send(running.address()).expect("somebody waits");
    running.run().await;
}
