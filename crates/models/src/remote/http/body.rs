//! Bodies of responses, by the way their length is declared (RFC 9112, sections 6.3 and 7.1).

use std::io;
use std::sync::Arc;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::net::TcpStream;

use super::pool::ConnectionPool;

/// Number of bytes read at a time.
const READ_BUFFER_BYTES: usize = 8 << 10;
/// Maximum length in bytes of a chunk's size line, and of the trailers.
const MAX_LINE_BYTES: usize = 16 << 10;

/// How the end of a body is determined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Framing {
    /// Number of bytes still to come.
    Length(u64),
    /// Chunked transfer coding.
    Chunked(ChunkState),
    /// The server closes the connection.
    Close,
}

/// The next element of a chunked body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ChunkState {
    Size,
    Data(u64),
    DataEnd,
    Trailer,
}

/// Result of parsing the available bytes.
#[derive(Debug, PartialEq)]
pub(super) enum BodyPart {
    Piece(Bytes),
    NeedMore,
    End,
}

/// A body that is being read.
pub(super) struct PlainBody {
    /// `None` after the end.
    stream: Option<TcpStream>,
    /// Bytes read but not yet returned.
    read: BytesMut,
    framing: Framing,
    /// The pool to return the connection to after the end, if it can be reused.
    home: Option<(Arc<ConnectionPool>, String)>,
}

impl Framing {
    pub(super) fn new_chunked() -> Framing {
        Framing::Chunked(ChunkState::Size)
    }

    /// Removes the next piece of the body from the bytes read.
    pub(super) fn take_part(&mut self, read: &mut BytesMut) -> io::Result<BodyPart> {
        match self {
            Framing::Length(0) => Ok(BodyPart::End),
            Framing::Length(left) => Ok(take_piece(read, left)),
            Framing::Chunked(chunk) => chunk.take_part(read),
            Framing::Close => {
                let mut endless = u64::MAX;
                Ok(take_piece(read, &mut endless))
            }
        }
    }
}

impl ChunkState {
    fn take_part(&mut self, read: &mut BytesMut) -> io::Result<BodyPart> {
        loop {
            match self {
                ChunkState::Size => match httparse::parse_chunk_size(read) {
                    Ok(httparse::Status::Complete((length, size))) => {
                        read.advance(length);
                        *self = if size == 0 { ChunkState::Trailer } else { ChunkState::Data(size) };
                    }
                    Ok(httparse::Status::Partial) => return need_more(read),
                    Err(_) => return Err(invalid_response("invalid chunk size")),
                },
                ChunkState::Data(0) => *self = ChunkState::DataEnd,
                ChunkState::Data(left) => return Ok(take_piece(read, left)),
                ChunkState::DataEnd => match &read[..] {
                    [] | [b'\r'] => return Ok(BodyPart::NeedMore),
                    [b'\r', b'\n', ..] => {
                        read.advance(2);
                        *self = ChunkState::Size;
                    }
                    _ => return Err(invalid_response("a chunk is longer than its size")),
                },
                ChunkState::Trailer => match read.iter().position(|byte| *byte == b'\n') {
                    None => return need_more(read),
                    Some(end) => {
                        let line = read.split_to(end + 1);
                        if line.trim_ascii().is_empty() {
                            return Ok(BodyPart::End);
                        }
                    }
                },
            }
        }
    }
}

fn need_more(read: &BytesMut) -> io::Result<BodyPart> {
    if read.len() < MAX_LINE_BYTES {
        Ok(BodyPart::NeedMore)
    } else {
        Err(invalid_response("a chunk's size line or trailer is too long"))
    }
}

fn take_piece(read: &mut BytesMut, left: &mut u64) -> BodyPart {
    if read.is_empty() {
        return BodyPart::NeedMore;
    }
    let length = read.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
    *left -= length as u64;
    BodyPart::Piece(read.split_to(length).freeze())
}

impl PlainBody {
    pub(super) fn new(
        stream: TcpStream,
        read: BytesMut,
        framing: Framing,
        home: Option<(Arc<ConnectionPool>, String)>,
    ) -> PlainBody {
        PlainBody { stream: Some(stream), read, framing, home }
    }

    /// The next bytes; `None` after the end.
    pub(super) async fn next_piece(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            match self.next_part()? {
                BodyPart::Piece(bytes) => return Ok(Some(bytes)),
                BodyPart::End => return Ok(None),
                BodyPart::NeedMore => {}
            }
            if let Some(stream) = &self.stream {
                stream.readable().await?;
                self.read_some()?;
            }
        }
    }

    /// The next piece, without waiting.
    fn next_part(&mut self) -> io::Result<BodyPart> {
        if self.stream.is_none() {
            return Ok(BodyPart::End);
        }
        let next = self.framing.take_part(&mut self.read)?;
        if next == BodyPart::End {
            self.finish_body();
        }
        Ok(next)
    }

    /// Reads the available bytes, possibly none. The end of the stream is the end of the body, or an error.
    fn read_some(&mut self) -> io::Result<()> {
        let Some(stream) = &self.stream else { return Ok(()) };
        match fill_buffer(stream, &mut self.read)? {
            Some(0) if self.framing == Framing::Close => self.stream = None,
            Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ => {}
        }
        Ok(())
    }

    fn finish_body(&mut self) {
        // Bytes after the end belong to no request, so the connection is not reused.
        if let (Some(stream), Some((pool, server)), true) = (self.stream.take(), self.home.take(), self.read.is_empty())
        {
            pool.return_connection(server, stream);
        }
    }
}

/// An answer is often complete a few bytes before its end. If these bytes are available, the connection can be reused.
impl Drop for PlainBody {
    fn drop(&mut self) {
        while let Ok(BodyPart::Piece(_)) = self.next_part() {}
        if self.stream.is_some() && self.read_some().is_ok() {
            while let Ok(BodyPart::Piece(_)) = self.next_part() {}
        }
    }
}

/// Reads into a buffer that is allocated only when data is available, since many connections wait for a long time.
/// Returns `None` if there was no data.
pub(super) fn fill_buffer(stream: &TcpStream, read: &mut BytesMut) -> io::Result<Option<usize>> {
    let mut room = std::mem::take(read);
    room.reserve(READ_BUFFER_BYTES);
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
pub(super) fn invalid_response(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
