//! A provider of embeddings in which synonyms have equal embeddings, and which can be made to fail.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use serde_json::{Value, json};

/// Synonyms, one line per dimension of the embeddings.
const SYNONYM_GROUPS: [&str; 3] = ["kitten cat feline", "price cost amount", "weather rain sun"];

/// A provider that responds until the test ends.
#[derive(Clone)]
pub(crate) struct EmbeddingServer {
    address: String,
    is_down: Arc<AtomicBool>,
    calls: Arc<AtomicUsize>,
    /// Texts that were embedded.
    embedded_texts: Arc<(Mutex<Vec<String>>, Condvar)>,
}

impl EmbeddingServer {
    pub(crate) fn start() -> EmbeddingServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let embedder =
            EmbeddingServer { address, is_down: Arc::default(), calls: Arc::default(), embedded_texts: Arc::default() };
        let shared = embedder.clone();
        std::thread::spawn(move || listener.incoming().flatten().for_each(|stream| shared.handle_connection(stream)));
        embedder
    }

    /// The configuration that uses this provider.
    pub(crate) fn config(&self) -> String {
        format!("[embeddings]\nmodel = \"near:m\"\n[providers.near]\nbase_url = \"http://{}/v1\"\n", self.address)
    }

    /// Makes every call fail, or succeed again.
    pub(crate) fn set_failing(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::SeqCst);
    }

    /// Number of calls.
    pub(crate) fn call_count(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// Waits until a text that contains `part` was embedded.
    pub(crate) fn wait_for_text(&self, part: &str) {
        let (made, changed) = &*self.embedded_texts;
        let mut made = made.lock().expect("not poisoned");
        while !made.iter().any(|text| text.contains(part)) {
            made = changed.wait(made).expect("not poisoned");
        }
    }

    fn handle_connection(&self, mut stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().expect("a handle"));
        let mut length = 0;
        for line in reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty()) {
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a number");
            }
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        self.calls.fetch_add(1, Ordering::SeqCst);
        let (status, reply) = match self.is_down.load(Ordering::SeqCst) {
            true => ("400 Bad Request", json!({"error": {"message": "out of order"}})),
            false => ("200 OK", self.embed(&serde_json::from_slice(&body).expect("JSON"))),
        };
        let reply = reply.to_string();
        let head =
            format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n", reply.len());
        // The caller may have disconnected.
        let _ = stream.write_all(format!("{head}connection: close\r\n\r\n{reply}").as_bytes());
    }

    fn embed(&self, asked: &Value) -> Value {
        let texts: Vec<&str> = asked["input"].as_array().expect("texts").iter().filter_map(Value::as_str).collect();
        let (made, changed) = &*self.embedded_texts;
        made.lock().expect("not poisoned").extend(texts.iter().map(|text| (*text).to_owned()));
        changed.notify_all();
        let has = |text: &str, words: &str| {
            let mut printed = text.split(|c: char| !c.is_alphanumeric());
            printed.any(|printed| words.split(' ').any(|word| word == printed.to_lowercase()))
        };
        let vector = |text: &&str| -> Vec<f32> {
            let meant = SYNONYM_GROUPS.iter().map(|words| f32::from(has(text, words)));
            meant.chain([0.1]).collect()
        };
        let data = texts.iter().enumerate().map(|(index, text)| json!({"index": index, "embedding": vector(text)}));
        json!({"data": data.collect::<Vec<_>>()})
    }
}
