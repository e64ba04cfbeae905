//! A model with the OpenAI protocol that streams its answer piece by piece, as directed by the test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::json;

/// A part of an answer.
enum AnswerPart {
    Text(String),
    /// The end, with the reason that the model gives for it.
    End(&'static str),
}

/// A model for a single call.
pub(crate) struct StreamingModel {
    address: String,
    pieces: Sender<AnswerPart>,
}

impl StreamingModel {
    pub(crate) fn start() -> StreamingModel {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (pieces, printed) = channel();
        std::thread::spawn(move || serve_call(&listener, &printed));
        StreamingModel { address, pieces }
    }

    /// The configuration with this model as the default.
    pub(crate) fn config(&self) -> String {
        format!("default_model = \"test:m\"\n[providers.test]\nbase_url = \"http://{}/v1\"\n", self.address)
    }

    pub(crate) fn send_piece(&self, piece: &str) {
        self.pieces.send(AnswerPart::Text(piece.to_owned())).expect("it listens");
    }

    pub(crate) fn end_answer(&self) {
        self.pieces.send(AnswerPart::End("stop")).expect("it listens");
    }

    /// Ends an answer that has reached its maximum length.
    pub(crate) fn cut_answer(&self) {
        self.pieces.send(AnswerPart::End("length")).expect("it listens");
    }
}

fn serve_call(listener: &TcpListener, printed: &Receiver<AnswerPart>) {
    let (mut stream, _) = listener.accept().expect("a call");
    let mut reader = BufReader::new(stream.try_clone().expect("a handle"));
    let mut length = 0;
    for line in reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty()) {
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a number");
        }
    }
    reader.read_exact(&mut vec![0; length]).expect("a body");
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("sent");
    let mut send = |delta: serde_json::Value, reason: serde_json::Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        let chunk =
            json!({"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]});
        stream.write_all(format!("data: {chunk}\n\n").as_bytes()).expect("sent");
    };
    for part in printed {
        match part {
            AnswerPart::Text(piece) => send(json!({"role": "assistant", "content": piece}), json!(null)),
            AnswerPart::End(reason) => {
                send(json!({}), json!(reason));
                break;
            }
        }
    }
    stream.write_all(b"data: [DONE]\n\n").expect("sent");
}
