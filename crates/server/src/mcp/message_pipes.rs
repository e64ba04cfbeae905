//! Standard input and output as streams of messages. The protocol's library skips a line that is no message, and its sender
//! would wait for an answer; here the line is answered with the error that JSON-RPC has for it.

use std::io;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::envelope::read_method;

/// Capacity of each pipe, in bytes. A longer message passes in parts.
const PIPE_BYTES: usize = 64 * 1024;
/// Number of errors that may wait to be written.
const MAX_WAITING_ERRORS: usize = 16;

/// The messages of standard input, and a way to standard output.
pub(super) struct MessagePipes {
    /// The messages that come in.
    pub(super) input: DuplexStream,
    /// Where answers go.
    pub(super) output: DuplexStream,
    /// Ends when all answers are written.
    pub(super) written: JoinHandle<()>,
}

impl MessagePipes {
    /// Connects standard input and output.
    pub(super) fn connect_stdio() -> MessagePipes {
        let (messages, input) = duplex(PIPE_BYTES);
        let (output, answers) = duplex(PIPE_BYTES);
        let (refuse, refused) = mpsc::channel(MAX_WAITING_ERRORS);
        // Whatever ends a stream ends the conversation.
        tokio::spawn(async move { drop(pass_messages(messages, refuse).await) });
        let written = tokio::spawn(async move { drop(write_answers(answers, refused).await) });
        MessagePipes { input, output, written }
    }
}

/// Passes on the lines of standard input that are messages, and the errors of the others.
async fn pass_messages(mut messages: DuplexStream, refuse: mpsc::Sender<String>) -> io::Result<()> {
    let mut lines = BufReader::new(tokio::io::stdin());
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).await? > 0 {
        let text = String::from_utf8_lossy(&line);
        match read_method(&text) {
            _ if text.trim().is_empty() => {}
            Ok(_) => {
                messages.write_all(&line).await?;
                if !line.ends_with(b"\n") {
                    messages.write_all(b"\n").await?;
                }
            }
            // Without a writer, the conversation is over.
            Err(problem) => refuse.send(problem.to_string()).await.map_err(io::Error::other)?,
        }
        line.clear();
    }
    Ok(())
}

/// Writes answers and errors to standard output, each on a line of its own.
async fn write_answers(answers: DuplexStream, mut refused: mpsc::Receiver<String>) -> io::Result<()> {
    let mut lines = BufReader::new(answers).lines();
    let mut output = tokio::io::stdout();
    loop {
        let line = tokio::select! {
            answer = lines.next_line() => match answer? {
                Some(answer) => answer,
                None => return Ok(()),
            },
            Some(problem) = refused.recv() => problem,
        };
        output.write_all(format!("{line}\n").as_bytes()).await?;
        output.flush().await?;
    }
}
