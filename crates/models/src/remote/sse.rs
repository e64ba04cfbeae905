//! Incremental parser of server-sent events.

/// Maximum size of an event in bytes; no provider sends one of this size.
const MAX_EVENT_BYTES: usize = 8 << 20;

/// One event.
#[derive(Debug, PartialEq, Eq)]
pub struct SseEvent {
    /// The `event:` name, often empty.
    pub name: String,
    /// The `data:` lines.
    pub data: String,
}

/// Why a stream cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// An event is larger than any real one.
    #[error("an event is too large")]
    TooLarge,
    /// The stream is not text.
    #[error("it is not UTF-8 text")]
    NotUtf8,
}

/// The parser of one stream.
#[derive(Default)]
pub struct SseParser {
    line: Vec<u8>,
    name: String,
    data: String,
    has_data: bool,
    after_cr: bool,
    has_started: bool,
}

impl SseParser {
    /// Adds the next bytes, in pieces of any size, and returns the events they complete. Fails if a line is not UTF-8,
    /// or if an event is too large.
    pub fn push_bytes(&mut self, bytes: &[u8]) -> Result<Vec<SseEvent>, Unreadable> {
        let mut events = Vec::new();
        for &byte in bytes {
            // CR LF is one line end, also if a piece ends between the two.
            let line_ended = matches!(byte, b'\r' | b'\n') && !(byte == b'\n' && self.after_cr);
            if line_ended {
                events.extend(self.end_line()?);
            } else if !matches!(byte, b'\r' | b'\n') {
                self.line.push(byte);
                if self.line.len() + self.data.len() > MAX_EVENT_BYTES {
                    return Err(Unreadable::TooLarge);
                }
            }
            self.after_cr = byte == b'\r';
        }
        Ok(events)
    }

    /// The event that the end of the stream completes, for servers that omit the last empty line. A line that is cut
    /// off is ignored.
    pub fn finish_stream(&mut self) -> Option<SseEvent> {
        self.take_event()
    }

    fn end_line(&mut self) -> Result<Option<SseEvent>, Unreadable> {
        let bytes = std::mem::take(&mut self.line);
        let mut line = std::str::from_utf8(&bytes).map_err(|_| Unreadable::NotUtf8)?;
        if !std::mem::replace(&mut self.has_started, true) {
            line = line.strip_prefix('\u{FEFF}').unwrap_or(line);
        }
        if line.is_empty() {
            return Ok(self.take_event());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            "event" => value.clone_into(&mut self.name),
            // A comment (empty field name), `id`, `retry` or an unknown field.
            _ => {}
        }
        Ok(None)
    }

    fn take_event(&mut self) -> Option<SseEvent> {
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        std::mem::take(&mut self.has_data).then_some(SseEvent { name, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_pieces(pieces: &[&[u8]]) -> Vec<(String, String)> {
        let mut parser = SseParser::default();
        let mut events: Vec<SseEvent> = pieces.iter().flat_map(|piece| parser.push_bytes(piece).unwrap()).collect();
        events.extend(parser.finish_stream());
        events.into_iter().map(|event| (event.name, event.data)).collect()
    }

    const SAMPLE_STREAM: &str = "\u{FEFF}: hello\r\ndata: {\"a\":\"€😀\"}\r\n\r\nevent: error\rdata:two\rdata:  lines\r\rid: 7\n\n\
                          data\n\nretry: 3\ndata: [DONE]\n\n";

    #[test]
    fn every_line_end_and_field_is_understood() {
        let expected = [("", "{\"a\":\"€😀\"}"), ("error", "two\n lines"), ("", ""), ("", "[DONE]")];
        let expected: Vec<_> = expected.map(|(name, data)| (name.to_owned(), data.to_owned())).to_vec();
        assert_eq!(parse_pieces(&[SAMPLE_STREAM.as_bytes()]), expected);
        let single: Vec<&[u8]> = SAMPLE_STREAM.as_bytes().chunks(1).collect();
        assert_eq!(parse_pieces(&single), expected, "byte by byte");
        for cut in 0..SAMPLE_STREAM.len() {
            let (left, right) = SAMPLE_STREAM.as_bytes().split_at(cut);
            assert_eq!(parse_pieces(&[left, right]), expected, "cut at {cut}");
        }
    }

    #[test]
    fn the_end_completes_an_event_but_not_a_line() {
        assert_eq!(parse_pieces(&[b"data: one\n"]), [(String::new(), "one".to_owned())]);
        assert_eq!(parse_pieces(&[b"data: one\n\ndata: tw"]), [(String::new(), "one".to_owned())]);
    }

    #[test]
    fn damage_and_floods_are_errors() {
        assert_eq!(SseParser::default().push_bytes(b"data: \xff\n"), Err(Unreadable::NotUtf8));
        let mut parser = SseParser::default();
        let flood = vec![b'x'; 1 << 20];
        let results: Vec<bool> = (0..9).map(|_| parser.push_bytes(&flood).is_ok()).collect();
        assert_eq!(results.last(), Some(&false));
    }
}
