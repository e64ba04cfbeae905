//! Bodies of answers, as their length is told (RFC 9112, sections 6.3 and 7.1).

use std::io;
use std::sync::Arc;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::net::TcpStream;

use super::pool::Pool;

/// Bytes that are read at a time.
const READ: usize = 8 << 10;
/// Bytes that a line about a chunk, and those behind the last one, may have.
const MOST_LINE: usize = 16 << 10;

/// How the end of a body is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Framing {
    /// So many bytes are still to come.
    Length(u64),
    /// It comes in chunks that tell their lengths.
    Chunked(Chunk),
    /// The server hangs up.
    Close,
}

/// What comes next of a body in chunks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Chunk {
    Size,
    Data(u64),
    DataEnd,
    Trailer,
}

/// What the bytes at hand are good for.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    Piece(Bytes),
    More,
    End,
}

/// A body that is being read.
pub(super) struct Body {
    /// None after the end.
    stream: Option<TcpStream>,
    /// Read, but not yet given out.
    read: BytesMut,
    framing: Framing,
    /// Where the connection goes after the end, if it is of use.
    home: Option<(Arc<Pool>, String)>,
}

impl Framing {
    pub(super) fn chunked() -> Framing {
        Framing::Chunked(Chunk::Size)
    }

    /// Takes the next of the body off what was read.
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
                    Err(_) => return Err(unreadable("the length of a chunk cannot be read")),
                },
                Chunk::Data(0) => *self = Chunk::DataEnd,
                Chunk::Data(left) => return Ok(piece(read, left)),
                Chunk::DataEnd => match &read[..] {
                    [] | [b'\r'] => return Ok(Next::More),
                    [b'\r', b'\n', ..] => {
                        read.advance(2);
                        *self = Chunk::Size;
                    }
                    _ => return Err(unreadable("a chunk is longer than it says")),
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
    if read.len() < MOST_LINE { Ok(Next::More) } else { Err(unreadable("a line between chunks is too long")) }
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

    /// The next bytes; nothing after the end.
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

    /// What can be said without waiting.
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

    /// Reads what is there, which may be nothing; the end of the stream is the end of the body, or an error.
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
        // What stands behind the end answers nothing that was asked.
        if let (Some(stream), Some((pool, server)), true) = (self.stream.take(), self.home.take(), self.read.is_empty())
        {
            pool.give_back(server, stream);
        }
    }
}

/// An answer is often understood a few bytes before its end. If they are there, the connection can be used again.
impl Drop for Body {
    fn drop(&mut self) {
        while let Ok(Next::Piece(_)) = self.next() {}
        if self.stream.is_some() && self.read_some().is_ok() {
            while let Ok(Next::Piece(_)) = self.next() {}
        }
    }
}

/// Reads into a buffer that is made only when something is there, since many wait for long. Nothing if nothing was.
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

/// An answer that is not HTTP.
pub(super) fn unreadable(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
