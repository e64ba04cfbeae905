//! TLS for Postgres connections. The server's certificate is verified with the platform's trust store.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::ServerName;

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Creates encrypted connections.
#[derive(Clone)]
pub(crate) struct TlsConnection {
    name: Option<ServerName<'static>>,
}

impl TlsConnection {
    pub(crate) fn new() -> TlsConnection {
        TlsConnection { name: None }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for TlsConnection {
    type Stream = EncryptedStream<S>;
    type TlsConnect = TlsConnection;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> io::Result<TlsConnection> {
        // A Unix socket has no server name and is never encrypted.
        Ok(TlsConnection { name: ServerName::try_from(domain.to_owned()).ok() })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for TlsConnection {
    type Stream = EncryptedStream<S>;
    type Error = io::Error;
    type Future = BoxFuture<io::Result<EncryptedStream<S>>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let name = self.name.ok_or_else(|| io::Error::other("the database server has no host name to verify"))?;
            let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
            let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
            let config = builder.with_platform_verifier().map_err(io::Error::other)?.with_no_client_auth();
            TlsConnector::from(Arc::new(config)).connect(name, stream).await.map(EncryptedStream)
        })
    }
}

/// An encrypted connection to a Postgres server.
pub(crate) struct EncryptedStream<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for EncryptedStream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for EncryptedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for EncryptedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
