//! Frames between a process and its worker: a mark known to both, the length, the payload.
//!
//! The mark keeps text that a block accidentally prints to the channel's descriptor from being taken for a frame. It is
//! not a secret from the block and need not be: a worker's messages are trusted no more than its block.

use std::io::{self, Read, Write};

use tokio::io::{AsyncRead, AsyncReadExt};

/// The mark of a channel.
pub type FrameMark = [u8; 16];

/// The mark of channels that no block can write to: those of expression workers, and the first frame of every channel.
pub const PLAIN_MARK: FrameMark = *b"flowloom channel";

const HEAD_BYTES: usize = 20;

/// Appends one frame to a buffer.
pub fn push_frame(out: &mut Vec<u8>, mark: &FrameMark, payload: &[u8]) {
    out.reserve(HEAD_BYTES + payload.len());
    out.extend_from_slice(mark);
    out.extend_from_slice(&u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(payload);
}

/// Writes and flushes one frame. Fails if the stream cannot be written.
pub fn write_frame(mut to: impl Write, mark: &FrameMark, payload: &[u8]) -> io::Result<()> {
    let mut out = Vec::new();
    push_frame(&mut out, mark, payload);
    to.write_all(&out)?;
    to.flush()
}

/// Reads exactly one frame; `None` at the end of the stream. Fails with `InvalidData` if the mark is wrong or the frame
/// is larger than `cap` bytes.
pub fn read_frame(mut from: impl Read, mark: &FrameMark, cap: usize) -> io::Result<Option<Vec<u8>>> {
    let mut head = [0; HEAD_BYTES];
    match from.read_exact(&mut head) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let length = parse_length(&head, mark, cap)?;
    let mut payload = vec![0; length];
    from.read_exact(&mut payload)?;
    Ok(Some(payload))
}

fn parse_length(head: &[u8; HEAD_BYTES], mark: &FrameMark, cap: usize) -> io::Result<usize> {
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    if head[..16] != mark[..] {
        return Err(invalid("the data is not a frame"));
    }
    let length = u32::from_be_bytes([head[16], head[17], head[18], head[19]]) as usize;
    if length > cap { Err(invalid("a frame is larger than allowed")) } else { Ok(length) }
}

/// Reads frames as they arrive. Cancelling a read loses no data.
pub struct FrameReader<R> {
    from: R,
    mark: FrameMark,
    cap: usize,
    buffer: Vec<u8>,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// A reader of the frames with a mark. Frames of more than `cap` bytes are refused.
    pub fn new(from: R, mark: FrameMark, cap: usize) -> FrameReader<R> {
        FrameReader { from, mark, cap, buffer: Vec::new() }
    }

    /// The next frame; `None` at the end of the stream, also within a frame. Fails if the stream cannot be read, if the
    /// data has another mark, or if a frame is larger than allowed.
    pub async fn next_frame(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(head) = self.buffer.first_chunk::<HEAD_BYTES>() {
                let end = HEAD_BYTES + parse_length(head, &self.mark, self.cap)?;
                if self.buffer.len() >= end {
                    let rest = self.buffer.split_off(end);
                    let mut frame = std::mem::replace(&mut self.buffer, rest);
                    frame.drain(..HEAD_BYTES);
                    return Ok(Some(frame));
                }
            }
            if self.from.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_comes_back_and_garbage_does_not() {
        let mut wire = Vec::new();
        write_frame(&mut wire, &PLAIN_MARK, b"one").unwrap();
        write_frame(&mut wire, &PLAIN_MARK, b"").unwrap();
        let mut from = &wire[..];
        assert_eq!(read_frame(&mut from, &PLAIN_MARK, 3).unwrap(), Some(b"one".to_vec()));
        assert_eq!(read_frame(&mut from, &PLAIN_MARK, 3).unwrap(), Some(Vec::new()));
        assert_eq!(read_frame(&mut from, &PLAIN_MARK, 3).unwrap(), None);
        assert!(read_frame(&wire[..], &PLAIN_MARK, 2).is_err());
        assert!(read_frame(&wire[..], &[0; 16], 3).is_err());
    }

    #[tokio::test]
    async fn frames_come_in_pieces() {
        let mut wire = Vec::new();
        write_frame(&mut wire, &PLAIN_MARK, b"first").unwrap();
        write_frame(&mut wire, &PLAIN_MARK, b"second").unwrap();
        wire.extend_from_slice(&PLAIN_MARK[..7]);
        for piece in [1, 7, 20, 1000] {
            let (mut to, from) = tokio::io::duplex(piece);
            let wire = wire.clone();
            let sender = tokio::spawn(async move { tokio::io::AsyncWriteExt::write_all(&mut to, &wire).await });
            let mut frames = FrameReader::new(from, PLAIN_MARK, 6);
            assert_eq!(frames.next_frame().await.unwrap(), Some(b"first".to_vec()));
            assert_eq!(frames.next_frame().await.unwrap(), Some(b"second".to_vec()));
            assert_eq!(frames.next_frame().await.unwrap(), None);
            sender.await.unwrap().unwrap();
        }
    }
}
