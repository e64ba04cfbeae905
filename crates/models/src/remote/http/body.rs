//! Bodies of responses, by the way their length is declared (RFC 9112, sections 6.3 and 7.1).

use std::io;
use std::sync::Arc;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::net::TcpStream;

use super::pool::Pool;

/// Number of bytes read at a time.
const READ: usize = 8 << 10;
/// Maximum length in bytes of a chunk's size line, and of the trailers.
const MOST_LINE: usize = 16 << 10;

/// How the end of a body is determined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Framing {
    /// Number of bytes still to come.
    Length(u64),
    /// Chunked transfer coding.
    Chunked(Chunk),
    /// The server closes the connection.
    Close,
}

/// The next element of a chunked body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Chunk {
    Size,
    Data(u64),
    DataEnd,
    Trailer,
}

/// Result of parsing the available bytes.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    Piece(Bytes),
    More,
    End,
}

/// A body that is being read.
pub(super) struct Body {
    /// `None` after the end.
    stream: Option<TcpStream>,
    /// Bytes read but not yet returned.
    read: BytesMut,
    framing: Framing,
    /// The pool to return the connection to after the end, if it can be reused.
    home: Option<(Arc<Pool>, String)>,
}

impl Framing {
    pub(super) fn chunked() -> Framing {
        Framing::Chunked(Chunk::Size)
    }

    /// Removes the next piece of the body from the bytes read.
    pub(super) fn take(&mut self, read: &mut BytesMut) -> io::Result<Next> {
        match self {
            Framing::Length(0) => Ok(Next::End),
            Framing::Length(left) => Ok(piece(read, left)),
            Framing::Chunked(chunk) => chunk.take(read),
            Framing::Close => {
                let mut endless = u64::MAX;
                Ok(piece(read, &mut endless))
            }
        }
    }
}

impl Chunk {
    fn take(&mut self, read: &mut BytesMut) -> io::Result<Next> {
        loop {
            match self {
                Chunk::Size => match httparse::parse_chunk_size(read) {
                    Ok(httparse::Status::Complete((length, size))) => {
                        read.advance(length);
                        *self = if size == 0 { Chunk::Trailer } else { Chunk::Data(size) };
                    }
                    Ok(httparse::Status::Partial) => return more(read),
                    Err(_) => return Err(unreadable("invalid chunk size")),
                },
                Chunk::Data(0) => *self = Chunk::DataEnd,
                Chunk::Data(left) => return Ok(piece(read, left)),
                Chunk::DataEnd => match &read[..] {
                    [] | [b'\r'] => return Ok(Next::More),
                    [b'\r', b'\n', ..] => {
                        read.advance(2);
                        *self = Chunk::Size;
                    }
                    _ => return Err(unreadable("a chunk is longer than its size")),
                },
                Chunk::Trailer => match read.iter().position(|byte| *byte == b'\n') {
                    None => return more(read),
                    Some(end) => {
                        let line = read.split_to(end + 1);
                        if line.trim_ascii().is_empty() {
                            return Ok(Next::End);
                        }
                    }
                },
            }
        }
    }
}

fn more(read: &BytesMut) -> io::Result<Next> {
    if read.len() < MOST_LINE { Ok(Next::More) } else { Err(unreadable("a chunk's size line or trailer is too long")) }
}

fn piece(read: &mut BytesMut, left: &mut u64) -> Next {
    if read.is_empty() {
        return Next::More;
    }
    let length = read.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
    *left -= length as u64;
    Next::Piece(read.split_to(length).freeze())
}

impl Body {
    pub(super) fn new(stream: TcpStream, read: BytesMut, framing: Framing, home: Option<(Arc<Pool>, String)>) -> Body {
        Body { stream: Some(stream), read, framing, home }
    }

    /// The next bytes; `None` after the end.
    pub(super) async fn piece(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            match self.next()? {
                Next::Piece(bytes) => return Ok(Some(bytes)),
                Next::End => return Ok(None),
                Next::More => {}
            }
            if let Some(stream) = &self.stream {
                stream.readable().await?;
                self.read_some()?;
            }
        }
    }

    /// The next piece, without waiting.
    fn next(&mut self) -> io::Result<Next> {
        if self.stream.is_none() {
            return Ok(Next::End);
        }
        let next = self.framing.take(&mut self.read)?;
        if next == Next::End {
            self.end();
        }
        Ok(next)
    }

    /// Reads the available bytes, possibly none. The end of the stream is the end of the body, or an error.
    fn read_some(&mut self) -> io::Result<()> {
        let Some(stream) = &self.stream else { return Ok(()) };
        match fill(stream, &mut self.read)? {
            Some(0) if self.framing == Framing::Close => self.stream = None,
            Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self) {
        // Bytes after the end belong to no request, so the connection is not reused.
        if let (Some(stream), Some((pool, server)), true) = (self.stream.take(), self.home.take(), self.read.is_empty())
        {
            pool.give_back(server, stream);
        }
    }
}

/// An answer is often complete a few bytes before its end. If these bytes are available, the connection can be reused.
impl Drop for Body {
    fn drop(&mut self) {
        while let Ok(Next::Piece(_)) = self.next() {}
        if self.stream.is_some() && self.read_some().is_ok() {
            while let Ok(Next::Piece(_)) = self.next() {}
        }
    }
}

/// Reads into a buffer that is allocated only when data is available, since many connections wait for a long time.
/// Returns `None` if there was no data.
pub(super) fn fill(stream: &TcpStream, read: &mut BytesMut) -> io::Result<Option<usize>> {
    let mut room = std::mem::take(read);
    room.reserve(READ);
    let count = match stream.try_read_buf(&mut room) {
        Ok(count) => Some(count),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        Err(error) => return Err(error),
    };
    if !room.is_empty() {
        *read = room;
    }
    Ok(count)
}

/// Error for a response that is not valid HTTP.
pub(super) fn unreadable(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
