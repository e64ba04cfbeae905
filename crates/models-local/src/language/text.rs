//! Turns the bytes of tokens into text that can be shown: complete UTF-8 characters only, and nothing that may still
//! become a stop sequence.

/// Collects an answer and detects its end.
pub(crate) struct AnswerText {
    stops: Vec<String>,
    bytes: Vec<u8>,
    pending: String,
    text: String,
}

impl AnswerText {
    /// An empty answer that ends before the first of `stops`.
    pub(crate) fn new(stops: &[String]) -> AnswerText {
        let stops = stops.iter().filter(|stop| !stop.is_empty()).cloned().collect();
        AnswerText { stops, bytes: Vec::new(), pending: String::new(), text: String::new() }
    }

    /// Adds a token's bytes and passes text that can be shown to `show`. Returns `true` once a stop sequence has
    /// appeared.
    pub(crate) fn push_bytes(&mut self, bytes: &[u8], show: &mut dyn FnMut(&str)) -> bool {
        self.bytes.extend_from_slice(bytes);
        self.take_whole_characters(false);
        let stop = self.stops.iter().filter_map(|stop| self.pending.find(stop.as_str())).min();
        let ready = stop.unwrap_or_else(|| self.pending.len() - self.longest_possible_stop());
        self.release_text(ready, show);
        stop.is_some()
    }

    /// Whether the answer so far ends with `end`, including text that was not shown yet.
    pub(crate) fn ends_with(&self, end: &str) -> bool {
        match end.strip_suffix(self.pending.as_str()) {
            Some(start) => self.text.ends_with(start),
            None => self.pending.ends_with(end),
        }
    }

    /// Ends the answer; text that was held back is shown now.
    pub(crate) fn finish_text(mut self, stopped: bool, show: &mut dyn FnMut(&str)) -> String {
        if !stopped {
            self.take_whole_characters(true);
            self.release_text(self.pending.len(), show);
        }
        self.text
    }

    fn release_text(&mut self, length: usize, show: &mut dyn FnMut(&str)) {
        let ready: String = self.pending.drain(..length).collect();
        if !ready.is_empty() {
            show(&ready);
            self.text.push_str(&ready);
        }
    }

    fn take_whole_characters(&mut self, all: bool) {
        loop {
            match std::str::from_utf8(&self.bytes) {
                Ok(text) => {
                    self.pending.push_str(text);
                    self.bytes.clear();
                    return;
                }
                Err(error) => {
                    let valid = error.valid_up_to();
                    self.pending.push_str(&String::from_utf8_lossy(&self.bytes[..valid]));
                    match error.error_len() {
                        // Bytes that no later byte can complete.
                        Some(bad) => {
                            self.pending.push('\u{FFFD}');
                            self.bytes.drain(..valid + bad);
                        }
                        None => {
                            self.bytes.drain(..valid);
                            if all {
                                self.pending.push('\u{FFFD}');
                                self.bytes.clear();
                            }
                            return;
                        }
                    }
                }
            }
        }
    }

    /// Length of the longest suffix of the held text that is a prefix of a stop sequence.
    fn longest_possible_stop(&self) -> usize {
        let starts_a_stop = |tail: &str| self.stops.iter().any(|stop| stop.starts_with(tail));
        self.pending
            .char_indices()
            .find(|(at, _)| starts_a_stop(&self.pending[*at..]))
            .map_or(0, |(at, _)| self.pending.len() - at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_tokens(stops: &[&str], tokens: &[&[u8]]) -> (String, Vec<String>) {
        let stops: Vec<String> = stops.iter().map(|s| (*s).to_owned()).collect();
        let mut answer = AnswerText::new(&stops);
        let mut deltas = Vec::new();
        let mut stopped = false;
        for token in tokens {
            stopped = answer.push_bytes(token, &mut |text| deltas.push(text.to_owned()));
            if stopped {
                break;
            }
        }
        let text = answer.finish_text(stopped, &mut |text| deltas.push(text.to_owned()));
        assert_eq!(text, deltas.concat());
        (text, deltas)
    }

    #[test]
    fn a_character_split_over_tokens_is_shown_whole() {
        assert_eq!(run_tokens(&[], &[b"a\xe2", b"\x82", b"\xac!"]).1, ["a", "€!"]);
        assert_eq!(run_tokens(&[], &[b"a\xe2"]).0, "a\u{FFFD}");
        assert_eq!(run_tokens(&[], &[b"\xff", b"b"]).0, "\u{FFFD}b");
    }

    #[test]
    fn a_stop_sequence_over_token_borders_ends_the_answer_before_it() {
        assert_eq!(run_tokens(&["END"], &[b"one E", b"N", b"D two"]).0, "one ");
        assert_eq!(run_tokens(&["END"], &[b"one E", b"N", b"T"]).0, "one ENT");
        assert_eq!(run_tokens(&["END"], &[b"one E"]).0, "one E");
        assert_eq!(run_tokens(&["", "\n\n"], &[b"a\n", b"b\n", b"\n"]).0, "a\nb");
    }
}
