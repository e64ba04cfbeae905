//! Idle connections, by server.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tokio::net::TcpStream;

use super::KEEP;

/// Maximum number of idle connections to one server.
const MOST: usize = 256;

/// The newest connection is used first, so that surplus connections of a peak age and are closed.
#[derive(Default)]
pub(super) struct Pool(Mutex<HashMap<String, VecDeque<(Instant, TcpStream)>>>);

impl Pool {
    /// An idle connection that is still open.
    pub(super) fn take(&self, server: &str) -> Option<TcpStream> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = kept.get_mut(server)?;
        close_old(kept);
        std::iter::from_fn(|| kept.pop_back()).map(|(_, stream)| stream).find(is_open)
    }

    pub(super) fn give_back(&self, server: String, stream: TcpStream) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = kept.entry(server).or_default();
        close_old(kept);
        if kept.len() < MOST {
            kept.push_back((Instant::now(), stream));
        }
    }
}

fn close_old(kept: &mut VecDeque<(Instant, TcpStream)>) {
    let is_old = |(since, _): &(Instant, TcpStream)| since.elapsed() > KEEP;
    while kept.front().is_some_and(is_old) {
        kept.pop_front();
    }
}

/// A server sends nothing before it is asked; readable data means that it closes the connection.
fn is_open(stream: &TcpStream) -> bool {
    matches!(stream.try_read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}
