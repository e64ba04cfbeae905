//! Idle connections, by server.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::net::TcpStream;

use super::IDLE_CONNECTION_TIMEOUT;

/// Maximum number of idle connections to one server.
const MAX_IDLE_CONNECTIONS: usize = 256;

/// The newest connection is used first, so that surplus connections of a peak age and are closed.
#[derive(Default)]
pub(super) struct ConnectionPool(Mutex<HashMap<String, VecDeque<(Instant, TcpStream)>>>);

impl ConnectionPool {
    /// An idle connection that is still open.
    pub(super) fn take_connection(&self, server: &str) -> Option<TcpStream> {
        let mut connections = self.0.lock();
        let connections = connections.get_mut(server)?;
        drop_expired(connections);
        std::iter::from_fn(|| connections.pop_back()).map(|(_, stream)| stream).find(is_open)
    }

    pub(super) fn return_connection(&self, server: String, stream: TcpStream) {
        let mut connections = self.0.lock();
        let connections = connections.entry(server).or_default();
        drop_expired(connections);
        if connections.len() < MAX_IDLE_CONNECTIONS {
            connections.push_back((Instant::now(), stream));
        }
    }
}

fn drop_expired(connections: &mut VecDeque<(Instant, TcpStream)>) {
    let is_old = |(since, _): &(Instant, TcpStream)| since.elapsed() > IDLE_CONNECTION_TIMEOUT;
    while connections.front().is_some_and(is_old) {
        connections.pop_front();
    }
}

/// A server sends nothing before it is asked; readable data means that it closes the connection.
fn is_open(stream: &TcpStream) -> bool {
    matches!(stream.try_read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}
