//! [`ServeError`]: why the server cannot start or has to stop.

use std::io;
use std::net::SocketAddr;

use flowloom_app::config::error::ConfigError;
use flowloom_app::error::AppError;
use flowloom_core::code::Code;
use flowloom_store::StoreError;

/// An error of the server as a whole.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is reachable from other machines, and there is no API key.
    #[error("{0} is reachable from other machines, but there is no API key; create one with flowloom keys create")]
    Unprotected(SocketAddr),
    /// The address or a signal handler cannot be taken.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The client of the MCP server over standard input does not follow the protocol.
    #[error("the MCP client violates the protocol: {0}")]
    Protocol(String),
    /// The public address is no address of a web server.
    #[error("the public URL must be like https://example.com/flows, not {0:?}")]
    PublicUrl(String),
    /// The store, the configuration or a run failed.
    #[error(transparent)]
    App(#[from] AppError),
}

impl ServeError {
    /// The error code.
    pub fn code(&self) -> Code {
        match self {
            ServeError::Unprotected(_) | ServeError::Listen { .. } => Code::BindRefused,
            ServeError::Protocol(_) => Code::RequestInvalid,
            ServeError::PublicUrl(_) => Code::ConfigInvalid,
            ServeError::App(error) => error.code(),
        }
    }
}

impl From<StoreError> for ServeError {
    fn from(error: StoreError) -> ServeError {
        ServeError::App(error.into())
    }
}

impl From<ConfigError> for ServeError {
    fn from(error: ConfigError) -> ServeError {
        ServeError::App(error.into())
    }
}
