//! The frames of both protocols: a head with a length, an empty line, and the content.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};

/// Maximum size of the content of a message, in bytes.
const MAX_CONTENT_BYTES: usize = 64 << 20;

/// Maximum size of a line of a head, in bytes.
const MAX_LINE_BYTES: u64 = 8 << 10;

/// A frame of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// The content of a message.
    Content(Vec<u8>),
    /// A head that does not state the length of its content, and why. The next frame may be fine.
    Malformed(&'static str),
}

/// Whether an editor has closed the stream that it reads: it is gone.
pub(crate) fn is_closed_stream(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

/// Reads the next frame; `None` at the end of the stream. Fails if the stream fails or ends within a frame.
pub(crate) async fn read_frame(input: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Frame>> {
    let (mut length, mut is_first) = (None, true);
    loop {
        let mut line = Vec::new();
        let count = (&mut *input).take(MAX_LINE_BYTES).read_until(b'\n', &mut line).await?;
        if count == 0 {
            return Ok(None);
        }
        let line = String::from_utf8_lossy(&line);
        match line.trim_end().split_once(':') {
            Some((name, value)) if name.trim().eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse::<usize>().ok();
            }
            // Empty lines between frames are no frame.
            None if line.trim().is_empty() && is_first => continue,
            None if line.trim().is_empty() => break,
            _ => {}
        }
        is_first = false;
    }
    match length {
        None => Ok(Some(Frame::Malformed("its head has no Content-Length with a number of bytes"))),
        Some(length) if length > MAX_CONTENT_BYTES => {
            let skipped = tokio::io::copy(&mut input.take(length as u64), &mut tokio::io::sink()).await?;
            let is_whole = skipped == length as u64;
            Ok(is_whole.then_some(Frame::Malformed("it is larger than 64 MiB")))
        }
        Some(length) => {
            let mut content = vec![0; length];
            input.read_exact(&mut content).await?;
            Ok(Some(Frame::Content(content)))
        }
    }
}

/// A content with its head.
pub(crate) fn write_frame(content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    let head = format!("Content-Length: {}\r\n\r\n", content.len());
    [head.as_bytes(), content].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_all(mut input: &[u8]) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Ok(Some(frame)) = read_frame(&mut input).await {
            frames.push(frame);
        }
        frames
    }

    #[tokio::test]
    async fn a_broken_head_does_not_end_the_stream() {
        let good = || Frame::Content(b"{}".to_vec());
        let broken = || Frame::Malformed("its head has no Content-Length with a number of bytes");
        let input = b"content-length:2\r\nContent-Type: x\r\n\r\n{}\r\nnonsense\r\n\r\nContent-Length: two\r\n\r\n\
                      Content-Length: 2\n\n{}Content-Length: 3\r\n\r\n{}";
        assert_eq!(read_all(input).await, [good(), broken(), broken(), good()]);
    }

    #[tokio::test]
    async fn what_is_too_large_is_passed_over() {
        let length = MAX_CONTENT_BYTES + 1;
        let mut input = format!("Content-Length: {length}\r\n\r\n").into_bytes();
        input.resize(input.len() + length, b' ');
        input.extend(write_frame("{}"));
        let frames = read_all(&input).await;
        assert_eq!(frames, [Frame::Malformed("it is larger than 64 MiB"), Frame::Content(b"{}".to_vec())]);
    }
}
