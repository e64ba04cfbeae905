//! Incremental parser of server-sent events.

/// Maximum size of an event in bytes; no provider sends one of this size.
const MOST_BYTES: usize = 8 << 20;

/// One event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// The `event:` name, often empty.
    pub(crate) name: String,
    /// The `data:` lines.
    pub(crate) data: String,
}

/// Why a stream cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    TooLarge,
    NotUtf8,
}

/// The parser of one stream.
#[derive(Default)]
pub(crate) struct Parser {
    line: Vec<u8>,
    name: String,
    data: String,
    has_data: bool,
    after_cr: bool,
    begun: bool,
}

impl Parser {
    /// Adds the next bytes, in pieces of any size, and returns the events they complete.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, Unreadable> {
        let mut events = Vec::new();
        for &byte in bytes {
            // CR LF is one line end, also if a piece ends between the two.
            let line_ended = matches!(byte, b'\r' | b'\n') && !(byte == b'\n' && self.after_cr);
            if line_ended {
                events.extend(self.end_line()?);
            } else if !matches!(byte, b'\r' | b'\n') {
                self.line.push(byte);
                if self.line.len() + self.data.len() > MOST_BYTES {
                    return Err(Unreadable::TooLarge);
                }
            }
            self.after_cr = byte == b'\r';
        }
        Ok(events)
    }

    /// The event that the end of the stream completes, for servers that omit the last empty line. A line that is cut
    /// off is ignored.
    pub(crate) fn finish(&mut self) -> Option<Event> {
        self.dispatch()
    }

    fn end_line(&mut self) -> Result<Option<Event>, Unreadable> {
        let bytes = std::mem::take(&mut self.line);
        let mut line = std::str::from_utf8(&bytes).map_err(|_| Unreadable::NotUtf8)?;
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix('\u{FEFF}').unwrap_or(line);
        }
        if line.is_empty() {
            return Ok(self.dispatch());
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

    fn dispatch(&mut self) -> Option<Event> {
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        std::mem::take(&mut self.has_data).then_some(Event { name, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<(String, String)> {
        let mut parser = Parser::default();
        let mut events: Vec<Event> = pieces.iter().flat_map(|piece| parser.push(piece).unwrap()).collect();
        events.extend(parser.finish());
        events.into_iter().map(|event| (event.name, event.data)).collect()
    }

    const STREAM: &str = "\u{FEFF}: hello\r\ndata: {\"a\":\"€😀\"}\r\n\r\nevent: error\rdata:two\rdata:  lines\r\rid: 7\n\n\
                          data\n\nretry: 3\ndata: [DONE]\n\n";

    #[test]
    fn every_line_end_and_field_is_understood() {
        let expected = [("", "{\"a\":\"€😀\"}"), ("error", "two\n lines"), ("", ""), ("", "[DONE]")];
        let expected: Vec<_> = expected.map(|(name, data)| (name.to_owned(), data.to_owned())).to_vec();
        assert_eq!(read(&[STREAM.as_bytes()]), expected);
        let single: Vec<&[u8]> = STREAM.as_bytes().chunks(1).collect();
        assert_eq!(read(&single), expected, "byte by byte");
        for cut in 0..STREAM.len() {
            let (left, right) = STREAM.as_bytes().split_at(cut);
            assert_eq!(read(&[left, right]), expected, "cut at {cut}");
        }
    }

    #[test]
    fn the_end_completes_an_event_but_not_a_line() {
        assert_eq!(read(&[b"data: one\n"]), [(String::new(), "one".to_owned())]);
        assert_eq!(read(&[b"data: one\n\ndata: tw"]), [(String::new(), "one".to_owned())]);
    }

    #[test]
    fn damage_and_floods_are_errors() {
        assert_eq!(Parser::default().push(b"data: \xff\n"), Err(Unreadable::NotUtf8));
        let mut parser = Parser::default();
        let flood = vec![b'x'; 1 << 20];
        let results: Vec<bool> = (0..9).map(|_| parser.push(&flood).is_ok()).collect();
        assert_eq!(results.last(), Some(&false));
    }
}
