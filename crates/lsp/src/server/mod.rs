//! The server: speaks the protocol, and keeps the open documents and the facts about them.
//!
//! Notifications change the state in the order in which they arrive. Requests are answered from a copy of it, on a pool
//! of threads, so that nothing delays the next message. A message passes the gate, which answers what cannot be read, then the
//! protocol library, then the router.

mod actions;
mod called_files;
mod capabilities;
mod check;
mod client;
mod convert;
mod documents;
mod features;
mod gate;
mod pages;
mod parts;
mod readers;
mod rename_check;
mod renames;
mod requests;
mod router;
mod runs;
mod state;
mod tests_of;
mod transport;
mod workspace;

use std::convert::Infallible;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;

use async_lsp::MainLoop;
use flowloom_app::config::Config;
use flowloom_app::config::error::ConfigError;
use futures_util::future::{Either, select};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc::unbounded_channel;

use crate::framing::is_closed_stream;

use gate::{MessageSender, pass_messages, write_messages};
use state::State;
use transport::TokioStream;

/// Reads the configuration that counts for the definition at a path.
pub type LoadConfig = Arc<dyn Fn(&Path) -> Result<Config, ConfigError> + Send + Sync>;

/// Bytes of messages that are read ahead.
const READ_AHEAD_BYTES: usize = 64 << 10;

/// How a conversation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConversationEnd {
    /// The editor has ended it in the right order, or has closed a stream.
    Regular,
    /// The editor has sent `exit` and no `shutdown` before it.
    WithoutShutdown,
}

/// Why the server ended before its client asked it to.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// A message broke the protocol, or the input failed.
    #[error("the editor's messages cannot be read: {0}")]
    Read(#[from] async_lsp::Error),
    /// The output failed.
    #[error("the editor's answers cannot be written: {0}")]
    Write(#[from] std::io::Error),
}

/// A language server for one editor.
pub struct LanguageServer {
    load_config: LoadConfig,
}

impl LanguageServer {
    /// A server that reads configurations with `load_config`.
    pub fn new(load_config: LoadConfig) -> LanguageServer {
        LanguageServer { load_config }
    }

    /// Answers the messages of an editor until it ends the conversation or closes a stream. Fails if a message breaks
    /// the protocol, or if a stream cannot be read or written.
    pub async fn serve(
        self,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin,
    ) -> Result<ConversationEnd, ServerError> {
        let (to_server, from_editor) = tokio::io::duplex(READ_AHEAD_BYTES);
        let (sender, messages) = unbounded_channel();
        let end = Arc::new(std::sync::OnceLock::new());
        let state_end = end.clone();
        let serve = async move {
            let (server, _) = MainLoop::new_server(|client| {
                router::build_service(State::new(client, self.load_config.clone(), state_end))
            });
            let run = pin!(server.run_buffered(TokioStream(from_editor), MessageSender::new(sender.clone())));
            let pass = pin!(async {
                pass_messages(input, to_server, sender).await;
                std::future::pending::<Infallible>().await
            });
            match select(run, pass).await {
                Either::Left((result, _)) => result,
                Either::Right((never, _)) => match never {},
            }
        };
        // The last answers are written, too.
        let (served, written) = tokio::join!(serve, write_messages(messages, output));
        let end = end.get().copied().unwrap_or(ConversationEnd::Regular);
        match (served, written) {
            // An editor that has crashed sends no `exit`.
            (Ok(()) | Err(async_lsp::Error::Eof), Ok(())) => Ok(end),
            (_, Err(error)) if is_closed_stream(&error) => Ok(end),
            (_, Err(error)) => Err(error.into()),
            (Err(error), Ok(())) => Err(error.into()),
        }
    }
}
