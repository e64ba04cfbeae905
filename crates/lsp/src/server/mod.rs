//! The server: speaks the protocol, and keeps what is open and what is known about it.
//!
//! Notifications change the state in the order in which they arrive. Requests are answered from a copy of it, on a pool
//! of threads, so that nothing delays the next message.

mod actions;
mod capabilities;
mod check;
mod convert;
mod documents;
mod features;
mod pages;
mod parts;
mod renames;
mod router;
mod runs;
mod state;
mod tests_of;
mod transport;

use std::path::Path;
use std::sync::Arc;

use async_lsp::MainLoop;
use flowloom_app::config::Config;
use flowloom_app::config::error::ConfigError;
use tokio::io::{AsyncRead, AsyncWrite};

use state::State;
use transport::TokioStream;

/// Reads the configuration that counts for the definition at a path.
pub type LoadConfig = Arc<dyn Fn(&Path) -> Result<Config, ConfigError> + Send + Sync>;

/// Why the server ended before its client asked it to.
#[derive(Debug, thiserror::Error)]
#[error("the editor's messages cannot be read: {0}")]
pub struct ServerError(#[from] async_lsp::Error);

/// A language server for one editor.
pub struct LanguageServer {
    load_config: LoadConfig,
}

impl LanguageServer {
    /// A server that reads configurations with `load_config`.
    pub fn new(load_config: LoadConfig) -> LanguageServer {
        LanguageServer { load_config }
    }

    /// Answers the messages of an editor until it ends the conversation or closes the stream.
    pub async fn serve(
        self,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin,
    ) -> Result<(), ServerError> {
        let (server, _) =
            MainLoop::new_server(|client| router::build_service(State::new(client, self.load_config.clone())));
        match server.run_buffered(TokioStream(input), TokioStream(output)).await {
            // An editor that has crashed says no goodbye.
            Ok(()) | Err(async_lsp::Error::Eof) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
